"""The double of an array, honestly."""


def custom_kernel(data):
    return 2 * data
