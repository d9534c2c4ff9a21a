"""Writes files that are too large, and many that are not."""

import os

home = os.environ["HOME"]
try:
    with open(os.path.join(home, "large"), "wb") as file:
        file.write(b"x" * 2**22)
        file.flush()
    print("REACHED a file of 4 MiB")
except OSError:
    pass
for number in range(64):
    with open(os.path.join(home, f"{number}"), "wb") as file:
        file.write(b"x" * 2**19)
print("TRIED")


def custom_kernel(data):
    return [2 * x for x in data]
