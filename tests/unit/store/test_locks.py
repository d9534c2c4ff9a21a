"""Locks of the database: another program holds them, or the file system has none."""

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from hpc_board.errors import UnreadableError
from hpc_board.store.database import DatabaseFile
from tests.unit.recorded import recorded

WITHOUT_LOCKS = """\
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>
static int control(int descriptor, int command, void *value) {
    if (command == F_SETLK || command == F_SETLKW || command == F_GETLK || command == F_OFD_SETLK) {
        errno = ENOLCK;
        return -1;
    }
    return syscall(SYS_fcntl, descriptor, command, value);
}
#define BODY va_list rest; va_start(rest, command); return control(descriptor, command, va_arg(rest, void *));
int fcntl(int descriptor, int command, ...) { BODY }
int fcntl64(int descriptor, int command, ...) { BODY }
"""


def test_a_file_system_without_locks_is_named_and_not_taken_for_a_busy_database(tmp_path: Path) -> None:
    compiler, library = shutil.which("gcc"), tmp_path / "locks.so"
    if compiler is None:
        pytest.skip("there is no gcc to make a library that refuses locks")
    (tmp_path / "locks.c").write_text(WITHOUT_LOCKS)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, tmp_path / "locks.c"], check=True)
    board = recorded(tmp_path)
    board.add()
    done = subprocess.run(
        [sys.executable, "-m", "hpc_board", "--config", board.settings, "runs"],
        env={**os.environ, "LD_PRELOAD": str(library)},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=DatabaseFile(tmp_path).busy_timeout_seconds / 2,
    )
    assert done.returncode == 2
    assert "board.db: its file system has no file locks (database is locked)\nhint: On NFS" in done.stderr


RECOVERS = """
import fcntl, sys, time

with open(f"{sys.argv[1]}-shm", "w+b") as index:
    index.truncate(32768)
    # SQLite's bytes for a user of the file, and for its writer and the one who recovers the log.
    fcntl.lockf(index, fcntl.LOCK_SH, 1, 128)
    fcntl.lockf(index, fcntl.LOCK_EX, 8, 120)
    print("locked", flush=True)
    time.sleep(1)
"""


def test_a_database_whose_log_another_program_recovers_is_awaited(tmp_path: Path) -> None:
    board = recorded(tmp_path)
    board.add()
    path, copy = board.folder / "board" / "board.db", tmp_path / "copy"
    with closing(sqlite3.connect(path)) as user:
        user.execute("PRAGMA user_version").fetchone()
        board.add()
        shutil.copytree(path.parent, copy)
    with subprocess.Popen([sys.executable, "-c", RECOVERS, copy / "board.db"], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with DatabaseFile(copy / "board.db").reading() as db:
            assert db.count("runs") == 2


def test_a_database_that_another_program_keeps_locked(tmp_path: Path) -> None:
    board = recorded(tmp_path)
    board.add()
    path = board.folder / "board" / "board.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode = delete")
        other.execute("BEGIN EXCLUSIVE")
        with (
            pytest.raises(UnreadableError, match="another program kept the database locked") as raised,
            DatabaseFile(path, busy_timeout_seconds=0.1).reading(),
        ):
            pass
    assert "find a hung hpc-board" in str(raised.value.hint)
