"""Checks of every node of the GPUs in the settings: a probe job on each, some at a time, and their comparison."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from hpc_board.admin.probe import Checked, Plan, check, gpu_names
from hpc_board.domain.diagnostic import Diagnostic, Severity
from hpc_board.domain.job_options import JobOptions
from hpc_board.domain.node_checks import NodeCheck, NodeVerdict, compared
from hpc_board.domain.run import NEVER_STARTS
from hpc_board.errors import InputError, SchedulerError
from hpc_board.model.gpu import Device, Gpu
from hpc_board.model.text import one_line
from hpc_board.schedulers import ListingNodes, SchedulerNode, kind_of

AT_ONCE = 8
"""The number of probe jobs at the same time: a check of all nodes is to leave the queue to others."""


def check_nodes(gpus: Sequence[Gpu], plan: Plan) -> list[NodeCheck]:
    """Check each node of these GPUs; a GPU that cannot be checked has one without a node.

    The scheduler is asked once for each GPU whether it accepts the options, and for its nodes. Nodes that take no jobs
    get none; idle ones come first.

    Raises:
        InputError: no cluster of the GPUs lists its nodes.
        StorageError: the board's folder cannot be written.
    """
    listing = [gpu for gpu in gpus if isinstance(plan.schedulers[gpu.cluster.name], ListingNodes)]
    if not listing:
        raise InputError(
            "no cluster of these GPUs lists its nodes.",
            hint="--each-node requires Slurm; omit it for other schedulers.",
        )
    rehearsed = check(listing, plan, send=False)
    checks: list[NodeCheck] = []
    known: list[tuple[Gpu, SchedulerNode]] = []
    for each in rehearsed:
        diagnostics = each.diagnostics
        if each.proven:
            try:
                known += [(each.gpu, node) for node in _nodes(each.gpu, plan)]
                continue
            except SchedulerError as error:
                diagnostics = (*diagnostics, Diagnostic(Severity.ERROR, "nodes", error.message, error.hint))
        refused = NodeCheck(each.gpu.name, each.gpu.cluster.name, "", "", NodeVerdict.BROKEN, diagnostics=diagnostics)
        checks.append(replace(refused, reason=one_line(refused.errors[0].message, 300)))
    sent = sorted((pair for pair in known if pair[1].takes_jobs), key=lambda pair: not pair[1].idle)
    labels = [f"{gpu.name} on {one_line(node.name)}" for gpu, node in sent]
    on_nodes = [kind_of(gpu.cluster).with_job_options(gpu, JobOptions(nodelist=node.name)) for gpu, node in sent]
    probed = check(on_nodes, plan, send=True, rehearse=False, labels=labels)
    found = {(gpu.name, node.name): each for (gpu, node), each in zip(sent, probed, strict=True)}
    for gpu in listing:
        of_gpu = [_node_check(gpu, node, found.get((gpu.name, node.name))) for own, node in known if own is gpu]
        checks += compared(of_gpu)
    return checks


def _nodes(gpu: Gpu, plan: Plan) -> Iterator[SchedulerNode]:
    """Yield the nodes of a GPU.

    Raises:
        SchedulerError: its scheduler does not answer, or has none.
    """
    scheduler = plan.schedulers[gpu.cluster.name]
    nodes = scheduler.nodes(gpu) if isinstance(scheduler, ListingNodes) else ()
    if not nodes:
        raise SchedulerError(
            f"{gpu.partition or gpu.cluster.name} has no node for a job of this entry",
            hint=f"Compare gpus.{gpu.name} in the settings with `sinfo -N -o '%N %G %f'`.",
        )
    yield from nodes


def _node_check(gpu: Gpu, node: SchedulerNode, checked: Checked | None) -> NodeCheck:
    found = NodeCheck(gpu.name, gpu.cluster.name, node.name, node.state, NodeVerdict.DOWN, node.reason)
    if checked is None:
        return found
    device = ""
    if checked.inspection is not None and gpu.device is not Device.CPU:
        device = next(iter(map(one_line, gpu_names(checked.inspection))), "")
    found = replace(found, device=device, diagnostics=checked.diagnostics, probe=checked.inspection)
    if checked.waited and not any(NEVER_STARTS in each.message for each in checked.diagnostics):
        (last,) = checked.diagnostics[-1:]
        return replace(found, verdict=NodeVerdict.BUSY, reason=one_line(last.message, 300))
    if not found.errors:
        return replace(found, verdict=NodeVerdict.OK, reason="")
    # A GPU of another model is a faulty entry, or a node in the wrong partition; everything else is a faulty node.
    wrong = bool(device) and {each.subject for each in found.errors} == {"gpu"}
    verdict = NodeVerdict.WRONG if wrong else NodeVerdict.BROKEN
    return replace(found, verdict=verdict, reason=one_line(found.errors[0].message, 300))
