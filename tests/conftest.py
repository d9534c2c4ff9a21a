import gc
import os
import pwd
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import hypothesis
import pytest

from tests import namespaces
from tests.harness.harness_file import measure, send_with_byte_code
from tests.slurm.lab import SlurmLab, missing_programs

# A shell that starts the tests in the background has them, and all that they start, ignore interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Some thousand commands start in these tests, and each would compile the product again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
send_with_byte_code()

# Moments are shown in the time zone of who reads them.
os.environ["TZ"] = "UTC"
time.tzset()


# The time that an example takes is another on a busy machine.
hypothesis.settings.register_profile("tests", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("tests")

OTHERS = ("ada", "bob", "cyd", "eve", "mallory")
"""The accounts that tests take for those of other people."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of `make test`."""
    parser.addoption("--in-memory", action="store_true", help="keep the tests' files in memory, if this is root")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Give all processes of the tests a folder for temporary files that no disk and no journal slows down.

    It is gone with them, and a failed test has to run once more to leave its files.
    """
    if not config.getoption("in_memory") or hasattr(config, "workerinput") or os.geteuid() != 0:
        return
    folder = Path(tempfile.mkdtemp(prefix="hb-"))
    try:
        namespaces.enter()
        namespaces.make_small(folder, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2)
    except OSError:
        folder.rmdir()
        return
    config.add_cleanup(lambda: namespaces.remove(folder))
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    # Short, for sockets.
    config.option.basetemp = str(folder / "t")


def pytest_report_header() -> list[str]:
    """Return a warning for an account with the name of one of the others."""
    name = pwd.getpwuid(os.geteuid()).pw_name
    return [f"tests take {name} for another account than this one: some fail here"] if name in OTHERS else []


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for garbage less often, and never among the modules and the tests: they are there to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()
        gc.set_threshold(20_000, 20, 20)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On several workers, begin with long files, and spread those that wait for Slurm over half of the others.

    In turns, all workers would soon wait at once: a file that waits takes minutes, one that computes seconds. Long are
    the files of tests/e2e, and then those of many tests, so that no worker is left with one at the end.
    """
    if not hasattr(config, "workerinput"):
        return
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    waiting = [path for path, tests in files.items() if any(test.get_closest_marker("slurm") for test in tests)]
    others = files.keys() - set(waiting)
    computing = sorted(others, key=lambda path: ("e2e" not in path.parts, -len(files[path]), path))
    between, rest = len(computing) // max(1, 2 * len(waiting)), iter(computing)
    order = [path for each in waiting for path in (each, *islice(rest, between))]
    items[:] = [item for path in (*order, *rest) for item in files[path]]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Have the jobs of the tests that run alone measure, and skip tests of PyTorch without it."""
    measure(item.get_closest_marker("quiet") is not None)
    if item.get_closest_marker("torch") is not None:
        skip_without("torch")


@pytest.fixture
def simulated() -> Iterator[str]:
    """The name of a simulated GPU, whose memory is removed at the end."""
    name = f"gpu-{os.getpid()}-{secrets.token_hex(4)}"
    yield name
    for path in Path("/dev/shm").glob(f"{name}.*"):
        path.unlink()


@pytest.fixture(scope="session")
def slurm_lab() -> Iterator[SlurmLab]:
    """A Slurm without accounting that remembers ended jobs for minutes; shared, so each test uses its own job names."""
    skip_without_slurm()
    with short_folder() as folder, SlurmLab(folder / "lab") as lab:
        yield lab


@pytest.fixture(scope="session")
def forgetful_lab() -> Iterator[SlurmLab]:
    """A Slurm without accounting that forgets ended jobs at once."""
    skip_without_slurm()
    with short_folder() as folder, SlurmLab(folder / "lab", configuration={"MinJobAge": "2"}) as lab:
        yield lab


@pytest.fixture(scope="session")
def accounting_lab() -> Iterator[SlurmLab]:
    """A Slurm that forgets ended jobs at once and keeps accounts of them."""
    skip_without_slurm(accounting=True)
    with (
        short_folder() as folder,
        SlurmLab(folder / "lab", configuration={"MinJobAge": "2"}, accounting=True) as lab,
    ):
        yield lab


def skip_without(*libraries: str) -> None:
    """Skip the test if a library of its jobs is not installed: this process imports none, as PyTorch takes a second."""
    for library in libraries:
        if find_spec(library) is None:
            pytest.skip(f"{library} is not installed")


def skip_without_slurm(*, accounting: bool = False) -> None:
    absent = missing_programs(accounting=accounting)
    if absent:
        pytest.skip(f"Slurm is not installed: no {', '.join(absent)}")


@contextmanager
def short_folder() -> Iterator[Path]:
    """A temporary folder whose path is short enough for sockets, wherever pytest keeps its own."""
    with tempfile.TemporaryDirectory(prefix="hb-slurm-") as name:
        Path(name).chmod(0o755)
        yield Path(name)
