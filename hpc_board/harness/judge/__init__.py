"""The judge's process: generates inputs and checks outputs."""
