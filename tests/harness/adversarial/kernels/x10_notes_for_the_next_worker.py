"""Leaves what it has seen wherever the next process of the same submission might find it."""

import ctypes
import glob
import os
import socket
import threading

KEY = 0x48504342
NAME = "hpc-board-adversary"
folders = [os.environ["HOME"], os.path.dirname(os.environ["HOME"]), os.path.dirname(__file__)]
folders += [os.path.dirname("@canary@")]
libc = ctypes.CDLL(None)


def found():
    for folder in folders:
        yield from glob.glob(f"{folder}/**/{NAME}", recursive=folder == folders[1])
    if libc.shmget(KEY, 0, 0) >= 0:
        yield "shared memory"
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(f"\0{NAME}")
            yield "an abstract socket"
        except OSError:
            pass


def leave():
    for folder in folders:
        try:
            with open(os.path.join(folder, NAME), "w") as file:
                file.write("answers")
        except OSError:
            continue
    libc.shmget(KEY, 4096, 0o1666)
    try:
        server = socket.socket(socket.AF_UNIX)
        server.bind(f"\0{NAME}")
        server.listen()
        threading.Thread(target=server.accept, daemon=True).start()
    except OSError:
        return


for place in found():
    print("REACHED", place)
leave()
if os.fork() == 0:
    os.setsid()
    threading.Event().wait(600)
print("TRIED")


def custom_kernel(data):
    return 2 * data
