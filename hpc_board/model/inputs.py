"""The files of a case's inputs in the job folder: the inputs, and the reason if there are none."""

INPUTS = "inputs.safetensors"
INPUTS_TOLD = "inputs.json"
INPUTS_TOLD_BYTES_MAX = 2**20
