"""The adversarial submissions: what each one tries, on which task, and the verdicts that it may end with."""

from dataclasses import dataclass
from pathlib import Path

from hpc_board.model.result import Verdict
from hpc_board.model.task import Mode

KERNELS = Path(__file__).parent / "kernels"

_NEED_QUIET = (
    # Their ends are timed: how soon a crash is known, or how long calls take.
    "p23_segv_case3",
    "x06_channel_held_after_crash",
    "p14_hash_cache",
    "p18_warmup_sleeper",
    # Processes of one user share the number of descriptors on their way, the names of sockets and memory segments.
    "x33_descriptors_on_their_way",
    "x10_notes_for_the_next_worker",
)


@dataclass(frozen=True)
class Cheat:
    """One submission against one task.

    A node that does not reach the `isolation` cannot stop it, and leaves it out. One that `tries` prints TRIED when it
    has tried everything and REACHED for each thing that it should not have reached. One that `pays` hides time from the
    clocks of its process: it may pass, and its score has to hold nine tenths of what the same work costs the reference.
    One that is `privileged` runs with all that root may do, where the tests may have it run so; others never do. Where
    there are `scratch_bytes`, the disk of the scratch folder has no more. `neighbours` is the number of busy processes
    beside it.
    """

    name: str
    mechanism: str
    task: str
    mode: Mode
    verdicts: tuple[Verdict, ...]
    isolation: str = "S0"
    tries: bool = False
    pays: bool = False
    variant: str = ""
    privileged: bool = False
    scratch_bytes: int = 0
    neighbours: int = 0

    @property
    def id(self) -> str:
        """The name, with the variant where there are several."""
        return f"{self.name}-{self.variant}" if self.variant else self.name

    @property
    def needs_quiet(self) -> bool:
        """Return whether other processes can change its end, by their work or by shared resources of its user."""
        measured = self.pays or self.privileged or Verdict.LATE_WRITE in self.verdicts
        return measured or self.name in _NEED_QUIET

    @property
    def path(self) -> Path:
        """The submission's file, in whatever language it is."""
        return next(KERNELS.glob(f"{self.name}.*"))

    @property
    def source(self) -> str:
        """The submission's text."""
        return self.path.read_text(encoding="utf-8")


def _cheat(
    name: str,
    mechanism: str,
    task: str,
    mode: Mode,
    *verdicts: Verdict,
    isolation: str = "S0",
    tries: bool = False,
    pays: bool = False,
    variant: str = "",
    privileged: bool = False,
    scratch_bytes: int = 0,
    neighbours: int = 0,
) -> Cheat:
    return Cheat(
        name, mechanism, task, mode, verdicts, isolation, tries, pays, variant, privileged, scratch_bytes, neighbours
    )


_TEST, _BENCHMARK, _RANKED = Mode.TEST, Mode.BENCHMARK, Mode.RANKED

SUITE: tuple[Cheat, ...] = (
    _cheat("p01_honest_ref", "none: computes", "digest", _RANKED, Verdict.PASS, variant="ranked"),
    _cheat("p01_honest_ref", "none: computes", "digest, short", _BENCHMARK, Verdict.PASS, variant="short"),
    _cheat(
        "p01_honest_ref", "none: computes", "digest, slow reference", _BENCHMARK, Verdict.PASS, variant="slow reference"
    ),
    _cheat("p01_honest_ref", "none: computes", "digest, little", _BENCHMARK, Verdict.PASS, variant="little"),
    _cheat("p01_honest_ref", "none: computes", "digest, many calls", _BENCHMARK, Verdict.PASS, variant="many calls"),
    _cheat("p01_honest_ref", "none: computes", "digest, few calls", _BENCHMARK, Verdict.PASS, variant="few calls"),
    _cheat("p26_honest_double", "none: computes", "arrays, large", _BENCHMARK, Verdict.PASS),
    _cheat("p27_honest_copy", "none: computes", "copies, memory-bound", _BENCHMARK, Verdict.PASS),
    _cheat("p02_wrong_zero", "returns zeros", "arrays", _TEST, Verdict.WRONG_VALUE),
    _cheat("p03_fd_spray", "forged verdicts into every descriptor", "double", _TEST, Verdict.PROTOCOL_VIOLATION),
    _cheat(
        "p04_parent_fd",
        "opens the supervisor's descriptors",
        "double",
        _TEST,
        Verdict.PASS,
        isolation="S1",
        tries=True,
    ),
    _cheat("p05_pickle_bomb", "an object that runs code when unpickled", "arrays", _TEST, Verdict.WRONG_DTYPE),
    _cheat("p06_patch_perf_counter", "slows the clock of its process", "digest", _BENCHMARK, Verdict.PASS, pays=True),
    _cheat("p07_patch_allclose", "makes comparisons succeed", "tensors", _TEST, Verdict.WRONG_VALUE),
    _cheat("p08_frame_theft", "looks for the expected answer in frames", "arrays", _TEST, Verdict.WRONG_VALUE),
    _cheat("p09_lazy_subclass", "an array that computes on access", "arrays", _TEST, Verdict.WRONG_DTYPE),
    _cheat("p10_instance_override", "a tensor with methods of its own", "tensors", _TEST, Verdict.WRONG_VALUE),
    _cheat(
        "p11_mutate_input", "zeroes inputs, returns zeros", "arrays", _TEST, Verdict.WRONG_VALUE, variant="anywhere"
    ),
    _cheat(
        "p11_mutate_input",
        "zeroes inputs, returns zeros",
        "arrays, inputs constant",
        _TEST,
        Verdict.MUTATED_INPUT,
        variant="constant",
    ),
    _cheat(
        "p12_return_input_alias",
        "returns the memory of its input",
        "arrays, outputs fresh",
        _TEST,
        Verdict.WRONG_ALIASED,
        variant="fresh",
    ),
    _cheat(
        "p12_return_input_alias",
        "returns the memory of its input",
        "arrays, outputs anywhere",
        _TEST,
        Verdict.PASS,
        variant="anywhere",
    ),
    _cheat("p13_ptr_cache", "remembers answers by address", "arrays", _BENCHMARK, Verdict.WRONG_VALUE),
    _cheat("p14_hash_cache", "remembers answers by values", "digest", _BENCHMARK, Verdict.PASS, tries=True),
    _cheat("p15_shape_const", "remembers answers by shape", "arrays", _BENCHMARK, Verdict.WRONG_VALUE),
    _cheat(
        "p16_thread_defer",
        "a thread fills the output later",
        "digest",
        _BENCHMARK,
        Verdict.WRONG_VALUE,
        Verdict.LATE_WRITE,
    ),
    _cheat("p17_call_counter", "honest for the first calls only", "arrays", _BENCHMARK, Verdict.WRONG_VALUE),
    _cheat("p18_warmup_sleeper", "sleeps in warm-up calls", "digest, least calls", _BENCHMARK, Verdict.PASS),
    _cheat("p19_import_precompute", "imports the reference", "double", _TEST, Verdict.LOAD_ERROR),
    _cheat(
        "p19_read_task_files",
        "reads the job folder",
        "double",
        _TEST,
        Verdict.PASS,
        isolation="S3",
        tries=True,
    ),
    _cheat(
        "p20_env_argv_probe",
        "looks for secrets in environments and arguments",
        "double",
        _TEST,
        Verdict.PASS,
        isolation="S1",
        tries=True,
    ),
    _cheat("p21_daemon_fork", "leaves a process in another session", "double", _TEST, Verdict.PASS),
    _cheat("p22_stdout_flood", "prints a gibibyte", "double", _TEST, Verdict.OUTPUT_LIMIT),
    _cheat("p23_segv_case3", "a null pointer in the third case", "double", _TEST, Verdict.CRASH),
    _cheat("p24_hang", "never returns from the second case", "double", _TEST, Verdict.TIMEOUT),
    _cheat("p25_nan_output", "returns NaN", "arrays", _TEST, Verdict.WRONG_NONFINITE),
    _cheat(
        "x01_claims_less_when_timed",
        "a tenth of the time where it counts",
        "digest",
        _BENCHMARK,
        Verdict.PASS,
        pays=True,
        variant="long",
    ),
    _cheat("x02_clock_code_swapped", "exchanges the clock's code", "digest", _BENCHMARK, Verdict.PASS, pays=True),
    _cheat(
        "x03_computes_while_writing",
        "computes after the clock has stopped",
        "digest",
        _BENCHMARK,
        Verdict.PASS,
        pays=True,
    ),
    _cheat(
        "x04_computes_while_reading",
        "computes before the clock starts",
        "digest",
        _BENCHMARK,
        Verdict.WRONG_VALUE,
        Verdict.PASS,
        pays=True,
    ),
    _cheat(
        "x05_double_fork_fills_later",
        "a process that is gone fills the output",
        "digest, slow check",
        _TEST,
        Verdict.LATE_WRITE,
    ),
    _cheat("x06_channel_held_after_crash", "crashes with the channel held open", "double", _TEST, Verdict.CRASH),
    _cheat("x07_plants_known_inputs", "replaces inputs in shared memory", "arrays", _TEST, Verdict.WRONG_VALUE),
    _cheat(
        "x08_reads_other_memories",
        "opens the harness's memory",
        "double",
        _BENCHMARK,
        Verdict.PASS,
        isolation="S3",
        tries=True,
    ),
    _cheat(
        "x09_done_before_finished",
        "sends `done` before it has computed",
        "double",
        _TEST,
        Verdict.PROTOCOL_VIOLATION,
    ),
    _cheat(
        "x10_notes_for_the_next_worker",
        "leaves answers for the next worker",
        "arrays",
        _RANKED,
        Verdict.PASS,
        isolation="S3",
        tries=True,
    ),
    _cheat(
        "x11_stops_the_supervisor",
        "stops the supervisor's clock",
        "double",
        _TEST,
        Verdict.PASS,
        isolation="S4",
        tries=True,
    ),
    _cheat("x12_fork_bomb", "hundreds of processes", "double", _TEST, Verdict.PASS, tries=True),
    _cheat(
        "x13_kills_its_siblings",
        "kills zygote, judge and others",
        "double",
        _TEST,
        Verdict.PASS,
        isolation="S4",
        tries=True,
    ),
    _cheat("x14_fills_the_disk", "large files and many", "double, little disk", _TEST, Verdict.PASS, tries=True),
    _cheat(
        "x15_opens_the_network",
        "connects over TCP and UDP",
        "double",
        _TEST,
        Verdict.PASS,
        isolation="S2",
        tries=True,
    ),
    _cheat("x16_always_the_same_time", "claims a constant", "digest, many calls", _BENCHMARK, Verdict.PASS, pays=True),
    _cheat("x17_leaves_threads", "threads that outlive their call", "digest", _BENCHMARK, Verdict.PASS, pays=True),
    _cheat("x18_claims_nothing", "claims no time at all", "arrays, large", _BENCHMARK, Verdict.PASS, pays=True),
    _cheat("x19_claims_a_nanosecond", "claims a nanosecond", "arrays, large", _BENCHMARK, Verdict.PASS, pays=True),
    _cheat(
        "x20_hides_in_the_slack",
        "hides a short call in the slack",
        "digest, short",
        _BENCHMARK,
        Verdict.PASS,
        pays=True,
    ),
    _cheat(
        "x20_hides_in_the_slack",
        "the same where the reference is slow",
        "digest, slow reference",
        _BENCHMARK,
        Verdict.PASS,
        pays=True,
        variant="slow",
    ),
    _cheat(
        "x01_claims_less_when_timed",
        "the same of a short call, and honest in a row",
        "digest, short",
        _BENCHMARK,
        Verdict.PASS,
        pays=True,
        variant="short",
    ),
    _cheat(
        "x22_traces_its_parent",
        "attaches to the harness as a debugger",
        "double",
        _TEST,
        Verdict.PASS,
        isolation="S2",
        tries=True,
    ),
    _cheat(
        "x23_writes_the_result",
        "writes into the job folder",
        "double",
        _TEST,
        Verdict.WRONG_VALUE,
        isolation="S3",
        tries=True,
    ),
    _cheat("x24_links_out_of_the_scratch", "links for whoever cleans up", "double", _TEST, Verdict.PASS, tries=True),
    _cheat("x25_terminal_codes", "control characters in logs and errors", "double", _TEST, Verdict.EXCEPTION),
    _cheat(
        "x26_uses_inputs_as_workspace",
        "computes in its inputs",
        "arrays, inputs constant",
        _TEST,
        Verdict.MUTATED_INPUT,
    ),
    _cheat(
        "x27_runs_from_its_killer",
        "forks faster than it is killed",
        "double",
        _TEST,
        Verdict.PASS,
        Verdict.LATE_WRITE,
        # One of its children may be born while the others are being stopped, and so runs on.
        Verdict.TIMING_INCONSISTENT,
    ),
    _cheat(
        "x28_slows_the_reference",
        "slows the reference's calls",
        "digest, few calls",
        _BENCHMARK,
        Verdict.PASS,
        pays=True,
    ),
    _cheat("x29_honest_at_first", "lies from the third process on", "digest, short", _RANKED, Verdict.PASS, pays=True),
    _cheat(
        "x30_finishes_while_it_is_copied",
        "a thread finishes the end of a large output while its beginning is copied",
        "digest, large output",
        _BENCHMARK,
        Verdict.LATE_WRITE,
    ),
    _cheat(
        "x32_wakes_itself",
        "a timer wakes it while it is stopped for the copying",
        "digest, large output",
        _BENCHMARK,
        Verdict.LATE_WRITE,
    ),
    _cheat(
        "x31_claims_next_to_nothing",
        "claims about 1 us, where an output takes as long to write as to compute",
        "copies, memory-bound",
        _BENCHMARK,
        Verdict.PASS,
        pays=True,
    ),
    _cheat(
        "x36_seals_its_inputs",
        "keeps the judge from writing inputs",
        "double",
        _TEST,
        Verdict.PASS,
        tries=True,
    ),
    _cheat(
        "x37_appends_to_its_inputs",
        "has the judge append inputs instead of writing them",
        "double",
        _TEST,
        Verdict.PASS,
        tries=True,
    ),
    _cheat(
        "x38_puts_its_inputs_back",
        "computes in its inputs and puts them back after the call",
        "arrays, inputs constant",
        _TEST,
        Verdict.MUTATED_INPUT,
    ),
    _cheat(
        "x35_helper_finishes_the_end",
        "a helper fills the end while the beginning is copied",
        "digest, large output",
        _TEST,
        Verdict.LATE_WRITE,
    ),
    _cheat(
        "x34_companion_that_cannot_stop",
        "a helper computes on in a process that no signal stops",
        "digest, in a block",
        _BENCHMARK,
        Verdict.LATE_WRITE,
        Verdict.PASS,
        pays=True,
    ),
    _cheat(
        "x33_descriptors_on_their_way",
        "keeps the harness from sending descriptors",
        "double",
        _TEST,
        Verdict.PASS,
        tries=True,
    ),
    _cheat(
        "x51_overlaps_calls",
        "computes several calls of a row at once",
        "digest, short",
        _BENCHMARK,
        Verdict.PASS,
        pays=True,
    ),
    _cheat(
        "x59_answers_with_its_inputs",
        "names an input as its answer",
        "arrays, outputs anywhere",
        _BENCHMARK,
        Verdict.PROTOCOL_VIOLATION,
    ),
    _cheat(
        "x52_makes_itself_wait",
        "has its first thread wait while another one computes",
        "digest, short",
        _BENCHMARK,
        Verdict.PASS,
        pays=True,
    ),
    _cheat("x55_loses_a_busy_child", "loses a child that ran", "digest", _BENCHMARK, Verdict.PASS, pays=True),
    _cheat(
        "x56_sleeps_on_a_busy_machine",
        "waits less for a processor than the harness",
        "arrays, asleep",
        _BENCHMARK,
        Verdict.PASS,
        pays=True,
        neighbours=4,
    ),
    _cheat("x53_slow_at_first", "makes rows short", "digest, little", _BENCHMARK, Verdict.PASS, pays=True),
    _cheat(
        "x54_skips_the_harness",
        "leaves out what is not the kernel",
        "digest, little",
        _BENCHMARK,
        Verdict.PASS,
        pays=True,
    ),
    _cheat(
        "x57_one_call_in_a_row",
        "leaves out in each call what others leave out once in a row",
        "digest, least",
        _BENCHMARK,
        Verdict.PASS,
        pays=True,
    ),
    _cheat(
        "x58_woken_by_the_supervisor",
        "computes between the last look at it and the start of the clock",
        "digest, little",
        _BENCHMARK,
        Verdict.TIMING_INCONSISTENT,
        Verdict.PASS,
        pays=True,
    ),
    _cheat(
        "x40_works_when_asked_for_a_workspace",
        "works on inputs where it is only to say how much memory it wants",
        "arrays, compiled",
        _BENCHMARK,
        Verdict.PASS,
        tries=True,
    ),
    _cheat(
        "x41_hides_from_the_supervisor",
        "has /proc hide whether it runs",
        "double",
        _TEST,
        Verdict.PASS,
        isolation="S2",
        tries=True,
    ),
    _cheat(
        "x42_makes_device_nodes",
        "makes device files of the node's disks",
        "double",
        _TEST,
        Verdict.PASS,
        isolation="S1",
        tries=True,
        privileged=True,
    ),
    _cheat(
        "x43_uses_root_s_privileges",
        "does what root alone may do",
        "double",
        _TEST,
        Verdict.PASS,
        isolation="S3",
        tries=True,
        privileged=True,
    ),
    _cheat(
        "x44_returns_no_numbers",
        "an empty output, which broadcasts to any sum",
        "sums",
        _TEST,
        Verdict.WRONG_SHAPE,
    ),
    _cheat(
        "x45_fills_the_disk_for_the_next",
        "leaves no room for the folders of later processes",
        "double",
        _RANKED,
        Verdict.OUTPUT_LIMIT,
        scratch_bytes=2**27,
    ),
    _cheat(
        "x46_acts_on_the_harness",
        "moves, slows and lists the harness's processes",
        "double",
        _TEST,
        Verdict.PASS,
        isolation="S3",
        tries=True,
    ),
)
