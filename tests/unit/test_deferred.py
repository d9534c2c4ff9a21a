"""Modules that are loaded at their first use: the same ones as ever, in whichever thread the use is."""

import subprocess
import sys

import pytest


def printed(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", f"from hpc_board.deferred import defer; defer(); {program}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("import inspect, sys; print('ast' in sys.modules, inspect.signature(print), 'ast' in sys.modules)", "False"),
        ("from inspect import Parameter; print(Parameter.empty.__module__)", "inspect"),
        ("import inspect; print(repr(inspect.cleandoc(' a\\tb')), repr(inspect.cleandoc('a\\n  b\\n   c')))", "'a"),
        ("import textwrap; print(textwrap.dedent('  a'))", "a"),
        ("import ipaddress; print(hasattr(ipaddress, 'nothing'), ipaddress.ip_address('::1'))", "False ::1"),
    ],
)
def test_a_deferred_module_has_all_of_its_names(program: str, told: str) -> None:
    found = printed(program)
    assert found.startswith(told)
    plain = program.replace("'ast' in sys.modules", "''")
    without = subprocess.run([sys.executable, "-c", plain], capture_output=True, text=True, timeout=120, check=True)
    if plain == program:
        assert found == without.stdout.strip()


def test_threads_that_use_a_module_at_one_moment_load_it_once() -> None:
    program = (
        "import inspect, threading\nfrom concurrent.futures import ThreadPoolExecutor\n"
        "barrier = threading.Barrier(8)\n"
        "with ThreadPoolExecutor(8) as pool: "
        "print(len({id(each) for each in pool.map(lambda _: barrier.wait() * 0 or inspect.Signature, range(8))}))"
    )
    assert printed(f"exec({program!r})") == "1"


def test_a_script_that_imports_the_interface_finds_its_modules_as_they_are() -> None:
    program = (
        "import sys, hpc_board; hpc_board.Board; print('typing_extensions' in sys.modules, 'inspect' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "True True"
