"""Leaves links to a folder outside where the harness removes everything, and folders that no process may enter."""

import os

home = os.environ["HOME"]
os.symlink(os.path.dirname("@canary@"), os.path.join(home, "link"))
os.mkdir(os.path.join(home, "closed"))
os.symlink("/", os.path.join(home, "closed", "root"))
os.mkfifo(os.path.join(home, "pipe"))
os.chmod(os.path.join(home, "closed"), 0)
print("TRIED")


def custom_kernel(data):
    return [2 * x for x in data]
