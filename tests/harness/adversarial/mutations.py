"""The defences of the harness, each with the change that switches it off and the cheat that wins then."""

from collections.abc import Callable
from dataclasses import dataclass

from hpc_board.model.result import Verdict
from tests.harness.adversarial.attack import Outcome, outcome
from tests.harness.adversarial.suite import SUITE, Cheat
from tests.harness.harness_file import Edit

_LESS = 0.8


@dataclass(frozen=True)
class Mutation:
    """A defence that is switched off by `edits`, while those of `both` are made with it and without it.

    `gains` says whether the cheat has an outcome without the defence, the first, that it does not have with it.
    """

    defence: str
    cheat: str
    edits: tuple[Edit, ...]
    gains: Callable[[Outcome, Outcome], bool]
    both: tuple[Edit, ...] = ()

    @property
    def submission(self) -> Cheat:
        """The cheat itself."""
        return next(each for each in SUITE if each.id == self.cheat)

    @property
    def needs_quiet(self) -> bool:
        """Return whether other processes can change an outcome."""
        return self.submission.needs_quiet or self.is_timed

    @property
    def is_timed(self) -> bool:
        """Return whether the cheat wins by its time."""
        return self.gains is _costs_less

    @property
    def is_compared(self) -> bool:
        """Return whether the cheat runs with the defence, too: test_adversarial.py shows the ends of all others."""
        return bool(self.both) or self.is_timed

    def with_it(self) -> Outcome:
        """Return the end of the cheat with the defence."""
        return outcome(self.submission, *self.both)

    def without_it(self) -> Outcome:
        """Return the end of the cheat without the defence."""
        return outcome(self.submission, *self.both, *self.edits)


def _passes(without: Outcome, _: Outcome) -> bool:
    return without.result.verdict is Verdict.PASS


def _has_effects(without: Outcome, _: Outcome) -> bool:
    return bool(without.effects)


def _costs_less(without: Outcome, with_it: Outcome) -> bool:
    return without.score_ns < _LESS * with_it.score_ns


def _is_called(verdict: Verdict) -> Callable[[Outcome, Outcome], bool]:
    """The cheat does not win, but is told apart no more from what is less grave, or later."""
    return lambda without, _: without.result.verdict is verdict


def _off(
    defence: str, cheat: str, file: str, old: str, new: str, gains: Callable[[Outcome, Outcome], bool], *both: Edit
) -> Mutation:
    return Mutation(defence, cheat, (Edit(file, old, new),), gains, both)


_CHECK = "last, throttled = self._check_outputs(numbers, group, answers, copies, probe=probe)"
_SLEEPS_EXCUSED = Edit("processes/tree.py", "self.sleeps - before.sleeps > _SLEEPS_OF_A_ROW", "False")
_EXCUSES_UNBOUNDED = Edit("processes/tree.py", "min(waited_ns, wall_ns - self.ran_since(before))", "waited_ns")
_BOUND = "return least_of_row_ns(self._worked_ns(), self._alone_ns())"
_UNBOUNDED = Edit("measure/row_benchmarks.py", _BOUND, "return 0.0")
_SENDS = "self.child.send(frame, [] if self._stops else self._arena)"
_CHECK_INPUTS = "    if self._rules.const_inputs:\n                    self._check_inputs(numbers, arena, bases)\n"
_CAPABLE = Edit("confine/sandbox.py", "    _give_up_capabilities()\n    abi", "    abi")
_NO_LANDLOCK = Edit("confine/sandbox.py", "    if abi < 1:\n", "    if True:\n")

MUTATIONS: tuple[Mutation, ...] = (
    _off("the judge's own opinion", "p02_wrong_zero", "judge/judge.py", "if good:", "if True:", _passes),
    _off(
        "an output has as many numbers as the right one",
        "x44_returns_no_numbers",
        "judge/judge.py",
        "if difference is not None and difference.final:",
        "if False:",
        _passes,
    ),
    _off(
        "every timed output is checked",
        "p17_call_counter",
        "measure/bench.py",
        _CHECK,
        f'{_CHECK} if not timed else (Checked(Verdict.PASS, ""), False)',
        _passes,
    ),
    _off(
        "outputs are looked at again later",
        "x05_double_fork_fills_later",
        "measure/bench.py",
        "(wrong or probe)",
        "False",
        _is_called(Verdict.WRONG_VALUE),
    ),
    _off(
        "an output is copied once nothing runs any more",
        "x30_finishes_while_it_is_copied",
        "measure/worker_handle.py",
        "        self._signal_stop(self._companions)\n        self.child.freeze(deadline)\n",
        "        return _now()\n",
        _passes,
    ),
    _off(
        "who is stopped stays so while an output is copied",
        "x32_wakes_itself",
        "measure/worker_handle.py",
        'if turns(self._turns) != self._turns:\n                message = "it kept running',
        'if False:\n                message = "it kept running',
        _passes,
    ),
    _off(
        "nobody seals the memory of inputs further",
        "x36_seals_its_inputs",
        "measure/worker_handle.py",
        " | fcntl.F_SEAL_SEAL",
        "",
        _is_called(Verdict.TASK_ERROR),
    ),
    _off(
        "the judge writes inputs where it wants to",
        "x37_appends_to_its_inputs",
        "measure/worker_handle.py",
        "fcntl.fcntl(descriptor, fcntl.F_SETFL, 0)",
        "pass",
        _is_called(Verdict.TASK_ERROR),
    ),
    _off(
        "all that a worker has started is stopped with it",
        "x35_helper_finishes_the_end",
        "measure/worker_handle.py",
        "found = self._siblings()",
        "found = []",
        _passes,
    ),
    _off(
        "the clock runs on until all siblings are stopped",
        "x34_companion_that_cannot_stop",
        "measure/worker_handle.py",
        "                    still = _now()\n                looks += 1",
        "                looks += 1",
        _passes,
    ),
    _off(
        "a seed of its own for every call",
        "p14_hash_cache",
        "processes/calls.py",
        "return _entropy.randrange(2**31)",
        "return 1",
        _has_effects,
    ),
    _off(
        "inputs have to stay as they are",
        "x26_uses_inputs_as_workspace",
        "judge/judge.py",
        "return payload.same(scratch, inputs, base)",
        "return True",
        _passes,
    ),
    _off(
        "inputs are compared before the worker goes on",
        "x38_puts_its_inputs_back",
        "measure/bench.py",
        f"            {_CHECK_INPUTS}",
        f"            time.sleep(0.05)\n        {_CHECK_INPUTS}",
        _passes,
    ),
    _off(
        "an answer lies in the memory of no input",
        "x59_answers_with_its_inputs",
        "measure/worker_handle.py",
        "if any_overlap([[(at, last) for at, last, _ in inputs], new]):",
        "if False:",
        _passes,
    ),
    _off(
        "calls that run at the same time are bounded by their work",
        "x51_overlaps_calls",
        "measure/row_benchmarks.py",
        _BOUND,
        "return 0.0",
        _costs_less,
    ),
    _off(
        "outputs have to be new",
        "p12_return_input_alias-fresh",
        "wire/form.py",
        "                if self._fresh:\n",
        "                if False:\n",
        _passes,
    ),
    _off(
        "the reference stays with the judge",
        "p19_import_precompute",
        "confine/scratch.py",
        'return any(part.partition(".")[0] in _PRIVATE_STEMS for',
        'return False and any(part.partition(".")[0] in _PRIVATE_STEMS for',
        _passes,
    ),
    _off(
        "the supervisor's clock counts, and no other",
        "x20_hides_in_the_slack",
        "measure/row_benchmarks.py",
        "(row.wall_ns - row.waited_ns - beside_ns)",
        "row.claimed_ns",
        _costs_less,
        _UNBOUNDED,
    ),
    Mutation(
        "the harness's own waiting is in no overhead",
        "x56_sleeps_on_a_busy_machine",
        (
            Edit(
                "processes/calls.py",
                "min(self.wall_ns - self.waited_ns, self.ran_ns)",
                "(self.wall_ns - self.waited_ns)",
            ),
        ),
        _costs_less,
        # As on a busy machine.
        (
            Edit(
                "measure/worker_handle.py",
                _SENDS,
                f"time.sleep(0.008 if getattr(fill, '__name__', '') == '_empty_caches' else 0); {_SENDS}",
            ),
        ),
    ),
    _off(
        "a short row has a part of the overhead subtracted",
        "x57_one_call_in_a_row",
        "measure/row_benchmarks.py",
        "return min(1.0, kernel_ns / (FULL_SHARE * self.row_seconds * 1e9))",
        "return 1.0",
        _costs_less,
        _UNBOUNDED,
    ),
    _off(
        "nothing runs between the last look and the start of the clock",
        "x58_woken_by_the_supervisor",
        "measure/worker_handle.py",
        "            self._check_still()\n",
        "",
        _passes,
        # As on a busy machine, where the supervisor waits for a processor before it reads its clock.
        Edit(
            "measure/worker_handle.py",
            "        deadline = time.monotonic() + seconds\n        start_ns, start_ran_ns = _now()\n",
            "        time.sleep(0.03)\n        deadline = time.monotonic() + seconds\n"
            "        start_ns, start_ran_ns = _now()\n",
        ),
    ),
    Mutation(
        "no wait is excused where the thread has slept",
        "x56_sleeps_on_a_busy_machine",
        (_SLEEPS_EXCUSED,),
        _costs_less,
        # As on a busy machine, now and then.
        (
            Edit(
                "processes/tree.py",
                "ProcessorTimes(run, wait, sleeps,",
                "ProcessorTimes(run, wait + 4_000_000 * sleeps, sleeps,",
            ),
        ),
    ),
    Mutation(
        "no wait is excused where a process has ended",
        "x55_loses_a_busy_child",
        (
            Edit(
                "processes/tree.py",
                "(self.last_pid, self.siblings) == (before.last_pid, before.siblings)",
                "self.last_pid == before.last_pid",
            ),
            Edit("processes/tree.py", "ran_ns = max(0, self.others_ns", "ran_ns = (self.others_ns"),
        ),
        _costs_less,
        (_SLEEPS_EXCUSED, _EXCUSES_UNBOUNDED, _UNBOUNDED),
    ),
    _off(
        "no wait is excused while anything else of the submission runs",
        "x52_makes_itself_wait",
        "processes/tree.py",
        " - before.wait_ns - ran_ns",
        " - before.wait_ns",
        _costs_less,
        _SLEEPS_EXCUSED,
        _EXCUSES_UNBOUNDED,
    ),
    _off(
        "an end is seen whoever holds the channel",
        "x06_channel_held_after_crash",
        "processes/child.py",
        "self._selector.register(self._pidfd, selectors.EVENT_READ)",
        "pass",
        _is_called(Verdict.TIMEOUT),
    ),
    _off(
        "the supervisor may open more files than a worker",
        "x33_descriptors_on_their_way",
        "confine/sandbox.py",
        "    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))\n",
        "    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))\n",
        _is_called(Verdict.PROTOCOL_VIOLATION),
    ),
    _off(
        "whatever is left is killed",
        "p21_daemon_fork",
        "processes/tree.py",
        "if not orphans or time.monotonic() >= deadline:",
        "if True:",
        _has_effects,
    ),
    _off(
        "the environment is an allow-list",
        "p20_env_argv_probe",
        "confine/scratch.py",
        'return {"LC_ALL": "C.UTF-8", **kept,',
        'return {"LC_ALL": "C.UTF-8", **environ,',
        _has_effects,
    ),
    _off(
        "logs without control characters",
        "x25_terminal_codes",
        "processes/output.py",
        "return printable(text, len(text))",
        "return text",
        _has_effects,
    ),
    _off(
        "memory hidden from processes of the same user",
        "p04_parent_fd",
        "confine/sandbox.py",
        "_libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)",
        "_libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)",
        _has_effects,
        _NO_LANDLOCK,
    ),
    _off(
        "the system-call filter",
        "x15_opens_the_network",
        "worker/worker.py",
        'filtered=not traced and deny_outside_effects(others=frame["others"])',
        "filtered=True",
        _has_effects,
    ),
    _off(
        "nobody hides from the supervisor",
        "x41_hides_from_the_supervisor",
        "confine/seccomp.py",
        '    _Rule("prctl", 157, 167, _EPERM, _NOT_HIDDEN),\n',
        "",
        _has_effects,
    ),
    _off(
        "nobody moves the harness's processes",
        "x46_acts_on_the_harness",
        "confine/seccomp.py",
        'if others and rule.name == "sched_setaffinity":',
        "if False:",
        _has_effects,
    ),
    _off(
        "nobody slows the harness's processes",
        "x46_acts_on_the_harness",
        "confine/seccomp.py",
        '    _Rule("setpriority", 141, 140, _EPERM, _OWN_PRIORITY),\n',
        "",
        _has_effects,
    ),
    _off(
        "nobody lists what the harness's processes hold",
        "x46_acts_on_the_harness",
        "confine/sandbox.py",
        '_allow(ruleset, "/proc", handled & _READ_FILE)',
        '_allow(ruleset, "/proc", handled & _READ)',
        _has_effects,
    ),
    Mutation("root without its capabilities", "x43_uses_root_s_privileges", (_CAPABLE,), _has_effects),
    Mutation(
        "no device files",
        "x42_makes_device_nodes",
        (
            Edit("confine/sandbox.py", "handled & ~_MAKE_DEVICES", "handled"),
            Edit("confine/seccomp.py", "_NO_DEVICE = (0, ", "_NO_DEVICE = (0, 0o020000, 0o060000, "),
        ),
        _has_effects,
        (_CAPABLE,),
    ),
    Mutation(
        "Landlock for the secrets of /etc",
        "x43_uses_root_s_privileges",
        (Edit("confine/sandbox.py", '    "OpenCL",\n', '    "shadow",\n'),),
        _has_effects,
    ),
    _off(
        "who fills the disk is to blame for it",
        "x45_fills_the_disk_for_the_next",
        "supervisor.py",
        "filled = self._disk.filled()",
        'filled = ""',
        _is_called(Verdict.INFRA_ERROR),
    ),
    Mutation("Landlock for files", "p19_read_task_files", (_NO_LANDLOCK,), _has_effects),
    Mutation("Landlock against notes for later", "x10_notes_for_the_next_worker", (_NO_LANDLOCK,), _has_effects),
    _off(
        "Landlock for signals",
        "x13_kills_its_siblings",
        "confine/sandbox.py",
        "_SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS = 3",
        "_SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS = 0",
        _has_effects,
    ),
)
