"""Checking every node of a GPU: which get a job, how many at once, and which are marked."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hpc_board.admin.each_node import check_nodes
from hpc_board.admin.probe import Plan
from hpc_board.domain.node_checks import NodeCheck, NodeVerdict, compared
from hpc_board.domain.run import JobState, JobStatus
from hpc_board.model.gpu import Gpu
from hpc_board.model.node_probe import NodeProbe, Speed
from hpc_board.report.diagnostics import node_checks_report
from hpc_board.report.plain import plain
from hpc_board.runs import job_folder as jobs
from hpc_board.schedulers import Job, SchedulerNode
from hpc_board.schedulers.slurm import GpuOptions, Request, RequestStyle
from hpc_board.schedulers.slurm.client import nodes_of
from hpc_board.schedulers.slurm.outputs import listed_nodes
from tests.harness.evaluations import a_task
from tests.unit.admin.test_probe import GOOD, H100, Cast
from tests.values import replace

NODES = (
    SchedulerNode("n1", "allocated", idle=False),
    SchedulerNode("n2", "idle"),
    SchedulerNode("n3", "drained", takes_jobs=False, reason="bad fan"),
    SchedulerNode("n4", "idle"),
    SchedulerNode("n5", "idle"),
)


@dataclass
class Cluster(Cast):
    """A cluster of five nodes that counts the jobs without a report at each submission."""

    in_flight: list[int] = field(default_factory=list)

    def nodes(self, gpu: Gpu) -> Sequence[SchedulerNode]:
        del gpu
        return NODES

    def submit(self, job: Job) -> str:
        taken = super().submit(job)
        self.in_flight.append(sum(not (each.folder / "result.json").exists() for each in self.submitted))
        return taken


def checked(tmp_path: Path, cast: Cast, *, at_once: int = 8, seconds: float = 20) -> list[NodeCheck]:
    folders = {"main": jobs.Folders(tmp_path / "board")}
    plan = Plan(folders, [a_task()], {"main": cast}, lambda: b"harness", seconds, at_once=at_once, benchmark=True)
    return check_nodes([H100], plan)


def test_jobs_go_to_nodes_that_take_them_idle_ones_first_and_some_at_once(tmp_path: Path) -> None:
    cast = Cluster()
    facts: list[object] = []
    cast.on_submit = lambda job: facts.append(json.loads((job.folder / "job.json").read_text())["inspect"]["benchmark"])
    checks = checked(tmp_path, cast, at_once=2)
    assert [job.options["nodelist"] for job in cast.submitted] == ["n2", "n4", "n5", "n1"]
    assert facts == [True] * 4
    assert max(cast.in_flight) == 2
    assert len(cast.rehearsed) == 1
    assert [(each.node, str(each.verdict), each.reason) for each in checks] == [
        ("n1", "ok", ""),
        ("n2", "ok", ""),
        ("n3", "down", "bad fan"),
        ("n4", "ok", ""),
        ("n5", "ok", ""),
    ]


def test_nodes_whose_jobs_wait_until_the_end_are_busy_and_not_broken(tmp_path: Path) -> None:
    waiting = JobStatus(JobState.PENDING, "7", reason="waiting for resources (Resources)")
    cast = Cluster(inspection=None, status=waiting)
    checks = checked(tmp_path, cast, at_once=2, seconds=0.3)
    assert {each.node: str(each.verdict) for each in checks if each.node != "n3"} == dict.fromkeys(
        ("n1", "n2", "n4", "n5"), "busy"
    )
    reasons = {each.node: each.reason for each in checks}
    assert reasons["n2"].startswith("no report within 0.3 s: waiting for resources")
    assert reasons["n1"] == "not sent: the jobs before it used up the 0.3 s of the check"
    assert len(cast.cancelled) == 2
    never = JobStatus(JobState.PENDING, "7", reason="will never start: no node can satisfy the request")
    checks = checked(tmp_path, Cluster(inspection=None, status=never), seconds=0.3)
    assert [str(each.verdict) for each in checks] == ["broken", "broken", "down", "broken", "broken"]


def node(name: str, rate: float = 100.0, device: str = "NVIDIA H100", spread: float = 0.02) -> NodeCheck:
    probe: NodeProbe = replace(
        GOOD, speeds=(Speed("matmul", "TFLOP/s", rate, spread), Speed("copy", "GB/s", 3000, 0.01))
    )
    return NodeCheck("H100", "main", name, "idle", NodeVerdict.OK, device=device, probe=probe)


def test_a_node_below_nine_tenths_of_the_median_is_slow_and_another_model_is_wrong() -> None:
    slow = compared([node("n1"), node("n2", 85.0), node("n3", 92.0), node("n4", 104.0)])
    assert [str(each.verdict) for each in slow] == ["ok", "slow", "ok", "ok"]
    assert slow[1].reason == "matmul at 89% of the median"
    unsteady = compared([node("n1"), node("n2", 85.0, spread=0.5), node("n3"), node("n4")])
    assert [str(each.verdict) for each in unsteady] == ["ok"] * 4
    wrong = compared([node("n1"), node("n2", 10.0, device="NVIDIA A100"), node("n3")])
    assert [each.of_median["matmul"] for each in wrong] == [1.0, 0.1, 1.0]
    assert [str(each.verdict) for each in wrong] == ["ok", "wrong", "ok"]
    assert wrong[1].reason == "it has NVIDIA A100, but most nodes have NVIDIA H100"
    text = plain(node_checks_report([*slow, *wrong]), 120)
    assert "7 nodes: 5 ok, 1 slow, 1 wrong." in text


def test_only_nodes_with_the_requested_gpus_and_features_are_tried() -> None:
    listed = listed_nodes(
        "n1|idle|IDLE|gpu:h100:2|fast,ib|none|\n"
        "n2|idle|IDLE|gpu:a100:2|fast,ib|none|\n"
        "n3|idle|IDLE+RESERVED|gpu:h100:2|fast|none|\n"
        "n3|idle|IDLE+RESERVED|gpu:h100:2|fast|none|\n"
        "n4|down*|DOWN+NOT_RESPONDING|gpu:h100:2|fast,ib|Not responding \x1b[31m|\n"
    )
    options = GpuOptions(Request(RequestStyle.GRES, "gpu:h100:1"), constraint="fast")
    found = nodes_of(replace(H100, scheduler_options=options), listed)
    assert [(each.name, each.takes_jobs) for each in found] == [("n1", True), ("n3", False), ("n4", False)]
    assert "\x1b" not in found[2].reason
    both = nodes_of(replace(H100, scheduler_options=GpuOptions(constraint="fast&ib")), listed)
    assert [each.name for each in both] == ["n1", "n2", "n4"]
