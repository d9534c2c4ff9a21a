"""Start the harness: the file beside the job folders that `job.json` names by its sha256.

The script compares the file's bytes with that name, and runs a copy in the job's own folder: the shared file may
change later, and no process of this job reads it again. Any Python can run this script, and an old one gets a message
with the required version.
"""

import contextlib
import hashlib
import json
import os
import runpy
import sys

if sys.version_info < (3, 10):
    found = (sys.executable,) + tuple(sys.version_info[:2])
    sys.exit("hpc-board: the judge needs Python 3.10 or newer; %s is %d.%d" % found)
if len(sys.argv) < 3:
    sys.exit("usage: harness.py ROLE JOB.JSON ...")

folder = os.path.dirname(os.path.abspath(sys.argv[2]))
with open(sys.argv[2], "rb") as file:
    sha256 = json.load(file)["sha256"]["harness"]
# The path of the job folder may contain links, so the system has to resolve `..`.
shared = os.path.realpath(os.path.join(folder, "..", "..", "harness", sha256 + ".pyz"))
try:
    with open(shared, "rb") as file:
        data = file.read()
except OSError as error:
    sys.exit("hpc-board: submit again, the judge cannot be read (%s): %s" % (error.strerror, shared))
if hashlib.sha256(data).hexdigest() != sha256:
    sys.exit("hpc-board: remove this file and submit again, it is not the judge: %s" % shared)

own = os.path.join(folder, "harness.pyz")
draft = "%s.%d" % (own, os.getpid())
try:
    try:
        with open(draft, "wb") as file:
            file.write(data)
        os.replace(draft, own)
    except OSError as error:
        sys.exit("hpc-board: the job folder cannot be written (%s): %s" % (error.strerror, folder))
    runpy.run_path(own, run_name="__main__")
finally:
    for path in (draft, own):
        with contextlib.suppress(OSError):
            os.remove(path)
