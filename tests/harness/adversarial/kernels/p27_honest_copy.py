"""A copy of an array, honestly."""


def custom_kernel(data):
    return data.copy()
