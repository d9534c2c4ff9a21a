"""The adversarial submissions: the task of each, and the verdicts that it may end with.

The first line of its file says what it tries.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    def mechanism(self) -> str:
        """The attempt in one sentence: the first line of its file."""
        return self.source.partition("\n")[0].lstrip('"/* ').rstrip('"/* ')

    @property
    def source(self) -> str:
        """The submission's text."""
        return self.path.read_text(encoding="utf-8")


def _cheat(name: str, task: str, mode: Mode, *verdicts: Verdict, **more: Any) -> Cheat:
    return Cheat(name, task, mode, verdicts, **more)


_TEST, _BENCHMARK, _RANKED = Mode.TEST, Mode.BENCHMARK, Mode.RANKED

SUITE: tuple[Cheat, ...] = (
    _cheat("p01_honest_ref", "digest", _RANKED, Verdict.PASS, variant="ranked"),
    _cheat("p01_honest_ref", "digest, short", _BENCHMARK, Verdict.PASS, variant="short"),
    _cheat("p01_honest_ref", "digest, slow reference", _BENCHMARK, Verdict.PASS, variant="slow reference"),
    _cheat("p01_honest_ref", "digest, little", _BENCHMARK, Verdict.PASS, variant="little"),
    _cheat("p01_honest_ref", "digest, many calls", _BENCHMARK, Verdict.PASS, variant="many calls"),
    _cheat("p26_honest_double", "arrays, large", _BENCHMARK, Verdict.PASS),
    _cheat("p27_honest_copy", "copies, memory-bound", _BENCHMARK, Verdict.PASS),
    _cheat("p02_wrong_zero", "arrays", _TEST, Verdict.WRONG_VALUE),
    _cheat("p03_fd_spray", "double", _TEST, Verdict.PROTOCOL_VIOLATION),
    _cheat("p04_parent_fd", "double", _TEST, Verdict.PASS, isolation="S1", tries=True),
    _cheat("p05_pickle_bomb", "arrays", _TEST, Verdict.WRONG_DTYPE),
    _cheat("p06_patch_perf_counter", "digest", _BENCHMARK, Verdict.PASS, pays=True),
    _cheat("p07_patch_allclose", "tensors", _TEST, Verdict.WRONG_VALUE),
    _cheat("p08_frame_theft", "arrays", _TEST, Verdict.WRONG_VALUE),
    _cheat("p09_lazy_subclass", "arrays", _TEST, Verdict.WRONG_DTYPE),
    _cheat("p10_instance_override", "tensors", _TEST, Verdict.WRONG_VALUE),
    _cheat("p11_mutate_input", "arrays", _TEST, Verdict.WRONG_VALUE, variant="anywhere"),
    _cheat("p11_mutate_input", "arrays, inputs constant", _TEST, Verdict.MUTATED_INPUT, variant="constant"),
    _cheat("p12_return_input_alias", "arrays, outputs fresh", _TEST, Verdict.WRONG_ALIASED, variant="fresh"),
    _cheat("p12_return_input_alias", "arrays, outputs anywhere", _TEST, Verdict.PASS, variant="anywhere"),
    _cheat("p13_ptr_cache", "arrays", _BENCHMARK, Verdict.WRONG_VALUE),
    _cheat("p14_hash_cache", "digest", _BENCHMARK, Verdict.PASS, tries=True),
    _cheat("p15_shape_const", "arrays", _BENCHMARK, Verdict.WRONG_VALUE),
    _cheat("p16_thread_defer", "digest", _BENCHMARK, Verdict.WRONG_VALUE, Verdict.LATE_WRITE),
    _cheat("p17_call_counter", "arrays", _BENCHMARK, Verdict.WRONG_VALUE),
    _cheat("p18_warmup_sleeper", "digest", _BENCHMARK, Verdict.PASS),
    _cheat("p19_import_precompute", "double", _TEST, Verdict.LOAD_ERROR),
    _cheat("p19_read_task_files", "double", _TEST, Verdict.PASS, isolation="S3", tries=True),
    _cheat("p20_env_argv_probe", "double", _TEST, Verdict.PASS, isolation="S1", tries=True),
    _cheat("p21_daemon_fork", "double", _TEST, Verdict.PASS),
    _cheat("p22_stdout_flood", "double", _TEST, Verdict.OUTPUT_LIMIT),
    _cheat("p23_segv_case3", "double", _TEST, Verdict.CRASH),
    _cheat("p24_hang", "double", _TEST, Verdict.TIMEOUT),
    _cheat("p25_nan_output", "arrays", _TEST, Verdict.WRONG_NONFINITE),
    _cheat("x01_claims_less_when_timed", "digest", _BENCHMARK, Verdict.PASS, pays=True, variant="long"),
    _cheat("x02_clock_code_swapped", "digest", _BENCHMARK, Verdict.PASS, pays=True),
    _cheat("x03_computes_while_writing", "digest", _BENCHMARK, Verdict.PASS, pays=True),
    _cheat("x04_computes_while_reading", "digest", _BENCHMARK, Verdict.WRONG_VALUE, Verdict.PASS, pays=True),
    _cheat("x05_double_fork_fills_later", "digest, slow check", _TEST, Verdict.LATE_WRITE),
    _cheat("x06_channel_held_after_crash", "double", _TEST, Verdict.CRASH),
    _cheat("x07_plants_known_inputs", "arrays", _TEST, Verdict.WRONG_VALUE),
    _cheat("x08_reads_other_memories", "double", _BENCHMARK, Verdict.PASS, isolation="S3", tries=True),
    _cheat("x09_done_before_finished", "double", _TEST, Verdict.PROTOCOL_VIOLATION),
    _cheat("x10_notes_for_the_next_worker", "arrays", _RANKED, Verdict.PASS, isolation="S3", tries=True),
    _cheat("x11_stops_the_supervisor", "double", _TEST, Verdict.PASS, isolation="S4", tries=True),
    _cheat("x12_fork_bomb", "double", _TEST, Verdict.PASS, tries=True),
    _cheat("x13_kills_its_siblings", "double", _TEST, Verdict.PASS, isolation="S4", tries=True),
    _cheat("x14_fills_the_disk", "double, little disk", _TEST, Verdict.PASS, tries=True),
    _cheat("x15_opens_the_network", "double", _TEST, Verdict.PASS, isolation="S2", tries=True),
    _cheat("x16_always_the_same_time", "digest, many calls", _BENCHMARK, Verdict.PASS, pays=True),
    _cheat("x17_leaves_threads", "digest", _BENCHMARK, Verdict.PASS, pays=True),
    _cheat("x18_claims_nothing", "arrays, large", _BENCHMARK, Verdict.PASS, pays=True),
    _cheat("x19_claims_a_nanosecond", "arrays, large", _BENCHMARK, Verdict.PASS, pays=True),
    _cheat("x20_hides_in_the_slack", "digest, short", _BENCHMARK, Verdict.PASS, pays=True),
    _cheat("x20_hides_in_the_slack", "digest, slow reference", _BENCHMARK, Verdict.PASS, pays=True, variant="slow"),
    _cheat("x01_claims_less_when_timed", "digest, short", _BENCHMARK, Verdict.PASS, pays=True, variant="short"),
    _cheat("x22_traces_its_parent", "double", _TEST, Verdict.PASS, isolation="S2", tries=True),
    _cheat("x23_writes_the_result", "double", _TEST, Verdict.WRONG_VALUE, isolation="S3", tries=True),
    _cheat("x24_links_out_of_the_scratch", "double", _TEST, Verdict.PASS, tries=True),
    _cheat("x25_terminal_codes", "double", _TEST, Verdict.EXCEPTION),
    _cheat("x26_uses_inputs_as_workspace", "arrays, inputs constant", _TEST, Verdict.MUTATED_INPUT),
    # One of its children may be born while the others are being stopped, and so runs on.
    _cheat("x27_runs_from_its_killer", "double", _TEST, Verdict.PASS, Verdict.LATE_WRITE, Verdict.TIMING_INCONSISTENT),
    _cheat("x28_slows_the_reference", "digest", _BENCHMARK, Verdict.PASS, pays=True),
    _cheat("x29_honest_at_first", "digest, short", _RANKED, Verdict.PASS, pays=True),
    _cheat(
        "x30_finishes_while_it_is_copied",
        "digest, large output",
        _BENCHMARK,
        Verdict.LATE_WRITE,
        Verdict.PASS,
        pays=True,
    ),
    _cheat("x32_wakes_itself", "digest, large output", _BENCHMARK, Verdict.LATE_WRITE),
    _cheat("x31_claims_next_to_nothing", "copies, memory-bound", _BENCHMARK, Verdict.PASS, pays=True),
    _cheat("x36_seals_its_inputs", "double", _TEST, Verdict.PASS, tries=True),
    _cheat("x37_appends_to_its_inputs", "double", _TEST, Verdict.PASS, tries=True),
    _cheat("x38_puts_its_inputs_back", "arrays, inputs constant", _TEST, Verdict.MUTATED_INPUT),
    _cheat("x35_helper_finishes_the_end", "digest, large output", _TEST, Verdict.LATE_WRITE),
    _cheat(
        "x34_companion_that_cannot_stop", "digest, in a block", _BENCHMARK, Verdict.LATE_WRITE, Verdict.PASS, pays=True
    ),
    _cheat("x33_descriptors_on_their_way", "double", _TEST, Verdict.PASS, tries=True),
    _cheat("x51_overlaps_calls", "digest, short", _BENCHMARK, Verdict.PASS, pays=True),
    _cheat("x59_answers_with_its_inputs", "arrays, outputs anywhere", _BENCHMARK, Verdict.PROTOCOL_VIOLATION),
    _cheat("x52_makes_itself_wait", "digest, short", _BENCHMARK, Verdict.PASS, pays=True),
    _cheat("x55_loses_a_busy_child", "digest", _BENCHMARK, Verdict.PASS, pays=True),
    _cheat("x56_sleeps_on_a_busy_machine", "arrays, asleep", _BENCHMARK, Verdict.PASS, pays=True, neighbours=4),
    _cheat("x53_slow_at_first", "digest, little", _BENCHMARK, Verdict.PASS, pays=True),
    _cheat("x54_skips_the_harness", "digest, little", _BENCHMARK, Verdict.PASS, pays=True),
    _cheat("x57_one_call_in_a_row", "digest, least", _BENCHMARK, Verdict.PASS, pays=True),
    _cheat(
        "x58_woken_by_the_supervisor",
        "digest, little",
        _BENCHMARK,
        Verdict.TIMING_INCONSISTENT,
        Verdict.PASS,
        pays=True,
    ),
    _cheat("x40_works_when_asked_for_a_workspace", "arrays, compiled", _BENCHMARK, Verdict.PASS, tries=True),
    _cheat("x41_hides_from_the_supervisor", "double", _TEST, Verdict.PASS, isolation="S2", tries=True),
    _cheat("x42_makes_device_nodes", "double", _TEST, Verdict.PASS, isolation="S1", tries=True, privileged=True),
    _cheat("x43_uses_root_s_privileges", "double", _TEST, Verdict.PASS, isolation="S3", tries=True, privileged=True),
    _cheat("x44_returns_no_numbers", "sums", _TEST, Verdict.WRONG_SHAPE),
    _cheat("x45_fills_the_disk_for_the_next", "double", _RANKED, Verdict.OUTPUT_LIMIT, scratch_bytes=2**27),
    _cheat("x46_acts_on_the_harness", "double", _TEST, Verdict.PASS, isolation="S3", tries=True),
)
