"""The judge's process: makes inputs and checks outputs."""
