"""The files of a case's inputs in the job folder: the inputs, and the reason if there are none."""

INPUTS = "inputs.safetensors"
INPUTS_FAULT = "inputs.json"
INPUTS_FAULT_BYTES_MAX = 2**20
