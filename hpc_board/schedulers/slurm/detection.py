"""Settings for a Slurm cluster from its description: one entry for each kind of GPU, the rest as comments.

A fact from Slurm is a line of the settings. A missing fact, or a decision for the admin, is a comment: a guess never
looks like a fact. The same cluster gives the same text.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import msgspec
from msgspec.structs import replace

from hpc_board.domain.cluster_info import ClusterInfo, ClusterNode, Partition
from hpc_board.domain.gpu_names import MODELS, Model, board_name, parse_gpu_name, parse_gpu_names
from hpc_board.domain.usage import CPU_MEMORY_MIB, CPUS, MEMORY_MIB
from hpc_board.model.gpu import Device
from hpc_board.model.names import NAME
from hpc_board.model.text import one_line
from hpc_board.schedulers.settings_text import Detected, comment, commented, quoted, scalar
from hpc_board.schedulers.slurm.gres import Gres, gres_list
from hpc_board.schedulers.slurm.sbatch import time_limit

_NODES_SHOWN = 4
_SHORT_SECONDS = 3600
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+:=-]{0,120}")


class _Kind(msgspec.Struct, frozen=True):
    """GPUs that a job cannot tell apart, and their type in Slurm; with `by_features` only features name the model."""

    type: str
    model: Model | None
    memory: str
    form: str
    mig: str
    by_features: bool

    @property
    def base(self) -> str:
        if self.model is None and not self.mig:
            return board_name([self.type])
        return board_name([self.model.name if self.model else "MIG", self.mig])


class _Offer(msgspec.Struct, frozen=True):
    """GPUs of one kind in one partition, counted by node; `others` are partitions that have some of the same nodes.

    `constraint` has the features to request beside the GPU; None if Slurm would give other GPUs for the same request.
    """

    kind: _Kind
    partition: Partition
    nodes: Mapping[ClusterNode, int]
    others: Sequence[Partition]
    constraint: str | None
    name: str = ""

    @property
    def reservation(self) -> str:
        """The reservation in which a job runs here; empty without one, or with several."""
        names = self.partition.reservations if self.partition.reservation_only else ()
        return names[0] if len(names) == 1 and _WORD.fullmatch(names[0]) else ""

    @property
    def known(self) -> bool:
        """Return whether Slurm has all facts of an entry: the model, its request, and the permission."""
        return (
            self.kind.model is not None
            and self.constraint is not None
            and bool(self.kind.type == "" or _WORD.fullmatch(self.kind.type))
            and not self.partition.root_only
            and bool(self.reservation or not self.partition.reservation_only)
        )


def detected_settings(site: ClusterInfo, cluster: str | None = None, board: str | None = None) -> Detected:
    """Return a settings file for the cluster, with the board in the folder `board` if that is known.

    The cluster is called `cluster`, else as Slurm itself calls it.
    """
    own = site.cluster if re.fullmatch(NAME, site.cluster) else "main"
    name = cluster or own
    offers = _named(list(_offers(site)))
    cpu = _cpu_partitions(site)
    gpus = (*(offer.name for offer in offers if offer.known), *(["CPU"] if cpu else []))
    lines = [*_header(site), *_notes(site, offers), ""]
    if board is None:
        lines += commented("board: /a/folder/that/the/compute/nodes/see", "otherwise the board is in the home folder")
    else:
        lines += [f"board: {quoted(board)}    # compute nodes must see it under the same path"]
    lines += [""]
    both = ["clusters:", f"  {scalar(name)}: {{scheduler: slurm}}", "", "gpus:"]
    if gpus:
        lines += both
    else:
        lines += [*comment("Nothing below is certain: uncomment these lines and an entry.", "")]
        lines += [f"# {line}" if line else "" for line in both]
    for offer in offers:
        lines += [*_entry(offer, name, site), ""]
    if cpu:
        lines += _cpu_entry(cpu, name, site)
    return Detected("\n".join(lines).rstrip("\n") + "\n", gpus)


# Kinds of GPUs


def _offers(site: ClusterInfo) -> Iterator[_Offer]:
    kinds: dict[_Kind, dict[ClusterNode, int]] = {}
    for node in site.nodes:
        for gpu in _gpus(node):
            nodes = kinds.setdefault(_kind(gpu.type, node.features), {})
            nodes[node] = nodes.get(node, 0) + gpu.count
    for kind in sorted(kinds, key=_order):
        left = kinds[kind]
        while inside := [
            (partition, nodes)
            for partition in site.partitions
            if _WORD.fullmatch(partition.name)
            and (nodes := {node: number for node, number in left.items() if partition.name in node.partitions})
        ]:
            inside.sort(key=lambda pair: _preference(pair[0], sum(pair[1].values())))
            best, mine = inside[0]
            # Partitions that share nodes are one offer.
            others = [(partition, nodes) for partition, nodes in inside[1:] if not mine.keys().isdisjoint(nodes)]
            yield _Offer(kind, best, mine, [partition for partition, _ in others], _constraint(site, kind, best, mine))
            offered = set(mine).union(*(nodes for _, nodes in others))
            left = {node: number for node, number in left.items() if node not in offered}


def _gpus(node: ClusterNode) -> list[Gres]:
    return [gres for gres in gres_list(node.gres) if gres.name == "gpu" and gres.count > 0]


@lru_cache(maxsize=50_000)
def _kind(type_: str, features: tuple[str, ...]) -> _Kind:
    """Return the kind of a node's GPUs: by their type in Slurm if it names the model, else by the node's features."""
    said = parse_gpu_name(type_)
    others = parse_gpu_names(features)
    if said.model is not None:
        same = next((each for each in others if each.model == said.model), said)
        found = replace(said, memory=said.memory or same.memory, form=said.form or same.form)
    elif len(others) == 1:
        found = replace(others[0], mig=said.mig or others[0].mig)
    else:
        found = said
    memory = found.memory or next(filter(None, (_gpu_memory(feature) for feature in features)), "")
    by_features = found.model is not None and said.model is None
    return _Kind(type_, found.model, memory, found.form, found.mig, by_features)


def _gpu_memory(feature: str) -> str:
    folded = feature.lower()
    return parse_gpu_name(feature).memory if "gpu" in folded and "mem" in folded else ""


def _order(kind: _Kind) -> tuple[object, ...]:
    known = list(MODELS).index(kind.model.name) if kind.model else len(MODELS)
    return (known, kind.mig, kind.memory, kind.form, kind.type)


def _preference(partition: Partition, gpus: int = 0) -> tuple[object, ...]:
    """Return the sort key of partitions: first one open to all with the most GPUs."""
    closed = (partition.root_only, partition.reservation_only, not partition.open_to_all)
    return (not partition.up, *closed, partition.preempted, -gpus, not partition.default, partition.name)


def _constraint(site: ClusterInfo, kind: _Kind, partition: Partition, nodes: Mapping[ClusterNode, int]) -> str | None:
    """Return the features to request beside the GPU, so that no node with another kind fits; None if there are none."""
    others = [
        set(node.features)
        for node in site.nodes
        if partition.name in node.partitions
        and any(gpu.type == kind.type or not kind.type for gpu in _gpus(node))
        and all(_kind(gpu.type, node.features) != kind for gpu in _gpus(node))
    ]
    common = set.intersection(*(set(node.features) for node in nodes))
    words = sorted((word for word in common if _WORD.fullmatch(word)), key=lambda word: (len(word), word))
    models = [word for word in words if kind.model is not None and parse_gpu_name(word).model == kind.model]
    tries: list[list[str]] = [[]] if kind.type or not models else []
    tries += [[word] for word in models]
    tries += [[*models[:1], word] for word in words if word not in models and _gpu_memory(word)]
    fit = (each for each in tries if not any(other.issuperset(each) for other in others))
    found = next(fit, None)
    return None if found is None else "&".join(found)


def _cpu_partitions(site: ClusterInfo) -> list[tuple[Partition, list[ClusterNode]]]:
    """Return the partitions without GPUs, the one to begin with first."""
    found = []
    for partition in sorted(site.partitions, key=_preference):
        nodes = [node for node in site.nodes if partition.name in node.partitions]
        if nodes and not any(_gpus(node) or _uncounted(node) for node in nodes):
            found += [(partition, nodes)] if _WORD.fullmatch(partition.name) and not partition.root_only else []
    return found


def _uncounted(node: ClusterNode) -> Sequence[str]:
    """Return the models of GPUs that a node's features name although Slurm counts none there."""
    words = (word for word in node.features if len(word) > 3 or word.lower().startswith("gpu"))
    return [] if _gpus(node) else [each.model.name for each in parse_gpu_names(words) if each.model]


# Names


def _named(offers: Sequence[_Offer]) -> list[_Offer]:
    """Return the offers, each with a unique name: as short as tells it from those before it."""
    taken = {"all", "cpu"}
    named: list[_Offer] = []
    for offer in offers:
        kind = offer.kind
        alike = [each.kind for each in offers if each.kind.base == kind.base]
        words = [kind.base]
        words += [kind.memory] if len({each.memory for each in alike}) > 1 else []
        words += [kind.form] if len({each.form for each in alike}) > 1 else []
        longer = board_name([*words, offer.partition.name])
        tries = [board_name(words), longer, *(f"{longer[:60] or 'GPU'}-{number}" for number in range(2, 1000))]
        name = next(each for each in tries if each and each.casefold() not in taken)
        taken.add(name.casefold())
        named.append(replace(offer, name=name))
    return named


# Text


def _header(site: ClusterInfo) -> Iterator[str]:
    release = f", Slurm {_plain(site.version)}" if site.version else ""
    yield from comment(
        f"hpc-board settings for the cluster {_plain(site.cluster) or 'without a name'}{release}, "
        "generated by `hpc-board admin detect`. Fill in the commented-out keys (#): Slurm does not report their "
        "values. Then test each entry with a short job: `hpc-board admin check`.",
        "",
    )


def _notes(site: ClusterInfo, offers: Sequence[_Offer]) -> Iterator[str]:
    """Yield the comments for all entries."""
    notes = [f"Unknown: {_plain(why)}." for why in site.unknown]
    select = site.configuration.get("SelectType", "")
    if select == "select/linear":
        notes.append("SelectType is select/linear: jobs get whole nodes, and GPUs can be requested only with --gres.")
    elif select == "select/cons_tres" and offers:
        notes.append("SelectType is select/cons_tres: the request styles `gpus` and `gpus-per-node` work, too.")
    if site.accounts_enforced:
        notes.append("Jobs need an account here: `sacctmgr show assoc user=$USER` lists yours, for the key `account`.")
    plugins = [site.configuration.get(key, "") for key in ("JobSubmitPlugins", "CliFilterPlugins")]
    if any(plugins):
        notes.append(f"The site filters jobs with its own plugins ({_plain(', '.join(filter(None, plugins)))}).")
    shared = sorted({gres.name for node in site.nodes for gres in gres_list(node.gres)} & {"mps", "shard"})
    if shared:
        notes.append(f"GPUs can also be allocated in shares ({', '.join(shared)}); the entries request whole ones.")
    uncounted = {(each, name) for node in site.nodes for name in node.partitions for each in _uncounted(node)}
    for model, partition in sorted(uncounted):
        notes.append(
            f"Features of nodes in partition {_plain(partition)} name {model}, but Slurm has no GPUs configured there. "
            "If jobs get whole nodes, add an entry with `exclusive: true` and a request of style `constraint`."
        )
    if offers:
        notes.append(
            "Every entry needs the key `python`, a Python with PyTorch that runs on the nodes, or `container`, an "
            "image with one. Times are most reliable with `exclusive: true`, if jobs may have whole nodes."
        )
    for note in notes:
        yield "#"
        yield from comment(note, "")


def _entry(offer: _Offer, cluster: str, site: ClusterInfo) -> list[str]:
    kind, partition = offer.kind, offer.partition
    request = f"gpu:{kind.type}:1" if kind.type else "gpu:1"
    lines = [f"  {scalar(offer.name)}:", f"    cluster: {scalar(cluster)}"]
    lines.append(f"    partition: {scalar(partition.name)}")
    lines.append(f'    request: {{style: gres, value: "{_plain(request)}"}}')
    if offer.constraint:
        lines.append(f"    constraint: {scalar(offer.constraint)}")
    if offer.reservation:
        lines.append(f"    reservation: {scalar(offer.reservation)}")
    if kind.model is not None and kind.model.device is not Device.CUDA:
        lines.append(f"    device: {kind.model.device}")
    if kind.model is not None and kind.model.arch:
        lines.append(f"    arch: {kind.model.arch}")
    told = [line for about in _about(offer) for line in comment(about, "  ")]
    lines += _to_decide(offer, site)
    return [*told, *(lines if offer.known else (f"  # {line[2:]}" for line in lines))]


def _about(offer: _Offer) -> Iterator[str]:
    """Return the findings, in sentences."""
    kind, partition = offer.kind, offer.partition
    calls = f"Slurm's type is {_plain(kind.type)}" if kind.type else "Slurm has no type for them"
    yield f"{_count_text(offer)}. {calls}."
    if kind.model is None:
        yield "Which model are they? Name the entry after it, and add `device` and `arch`."
    elif kind.by_features:
        yield f"According to the nodes' features, they are {kind.model.name}."
    qualities = " ".join(filter(None, (kind.memory, kind.form)))
    if qualities and kind.model is not None:
        yield f"Slurm's names for them include {qualities}."
    if kind.mig:
        yield f"They are slices of GPUs (MIG {kind.mig}): jobs on other slices of the same GPU may affect times."
    if offer.constraint is None:
        yield "Slurm does not distinguish them from other GPUs there: select nodes with `nodelist` or `exclude`."
    if partition.root_only or partition.reservation_only:
        who = "only root" if partition.root_only else "only jobs with a reservation (key `reservation`)"
        now = f" Current reservations: {_plain(', '.join(partition.reservations))}." if partition.reservations else ""
        yield f"The partition accepts {who}.{now}"
    if not partition.up:
        yield "The partition is currently not up."
    for other in offer.others:
        limit = f"up to {time_limit(other.max_time_seconds)}" if other.max_time_seconds else "no time limit"
        whose = "" if other.open_to_all else ", not open to all"
        yield f"Some of these nodes are also in partition {_plain(other.name)} ({limit}{whose}); choose one."


def _count_text(offer: _Offer) -> str:
    nodes = [*offer.nodes]
    count = sum(offer.nodes.values())
    names = ", ".join(_plain(node.name) for node in nodes[:_NODES_SHOWN])
    more = f" and {len(nodes) - _NODES_SHOWN} more" if len(nodes) > _NODES_SHOWN else ""
    away = sum(not node.up for node in nodes)
    down = f"; {away} of {len(nodes)} not usable now" if away else ""
    return f"{count} {'GPU' if count == 1 else 'GPUs'} on {names}{more}{down}"


def _to_decide(offer: _Offer, site: ClusterInfo) -> Iterator[str]:
    partition = offer.partition
    if offer.kind.model is not None and not offer.kind.model.arch:
        yield from commented("arch: sm_..", "several models have this name", indent="    ")
    yield from _time(partition)
    if partition.accounts or site.accounts_enforced:
        which = f"one of {_plain(partition.accounts)}" if partition.accounts else "one of your accounts"
        yield from commented("account: NAME", which, indent="    ")
    if partition.qos:
        yield from commented("qos: NAME", f"one of {_plain(partition.qos)}", indent="    ")
    if partition.groups:
        yield from comment(f"Only these groups may use the partition: {_plain(partition.groups)}", "    ")
    if partition.preempted:
        yield from comment("Jobs in this partition may be preempted (PreemptMode).", "    ")
    node, count = min(offer.nodes.items(), key=lambda pair: pair[0].cpus // pair[1])
    yield from _share(site, partition, node.cpus, gpus=1, about=f"{node.cpus} CPUs for {count} of these GPUs")
    yield from commented("python: /a/path/to/python", indent="    ")


def _share(site: ClusterInfo, partition: Partition, node_cpus: int, *, gpus: int, about: str) -> Iterator[str]:
    """Yield the keys for CPUs and memory where a job that asks for none gets too little."""
    share, cpus, wanted = partition.share, None, MEMORY_MIB if gpus else CPU_MEMORY_MIB
    if site.configuration.get("SelectType") != "select/linear" and node_cpus >= CPUS > share.cpus(None, gpus):
        cpus = CPUS
        if share.memory_per_cpu_max and not share.memory_per_node_max:
            # Slurm gives a job with more memory than its CPUs allow more CPUs, or refuses it.
            cpus = min(max(cpus, -(-wanted // share.memory_per_cpu_max)), node_cpus)
        yield f"    cpus_per_task: {cpus}    # the judge and the kernel; there are {about}"
    own = share.memory(share.cpus(cpus, gpus), gpus)
    if own is None or own >= wanted:
        return
    most = share.memory_max(share.cpus(cpus, gpus))
    if most is not None and most < wanted:
        yield f"    memory: {most}M    # the partition's maximum; ranked runs may need {wanted} MiB"
    else:
        yield f"    memory: {wanted}M    # without it a job gets {own} MiB"


def _time(partition: Partition) -> Iterator[str]:
    limit = partition.max_time_seconds
    if limit is not None and limit <= _SHORT_SECONDS:
        yield f'    time: "{time_limit(limit)}"'
    elif limit is not None:
        why = "the partition's limit; without it the task's limits apply"
        yield from commented(f'time: "{time_limit(limit)}"', why, indent="    ")


def _cpu_entry(found: Sequence[tuple[Partition, list[ClusterNode]]], cluster: str, site: ClusterInfo) -> list[str]:
    partition, nodes = found[0]
    lines = list(comment(f"{len(nodes)} {'node' if len(nodes) == 1 else 'nodes'} without GPUs.", "  "))
    for other, _ in found[1:]:
        lines += comment(f"Partition {_plain(other.name)} has no GPUs either; choose one.", "  ")
    lines += ["  CPU:", f"    cluster: {scalar(cluster)}", f"    partition: {scalar(partition.name)}"]
    lines.append("    request: {style: none}")
    lines += _time(partition)
    least = min((node.cpus for node in nodes), default=0)
    lines += _share(site, partition, least, gpus=0, about=f"{least} CPUs on each node")
    return [*lines, *commented("python: /a/path/to/python", indent="    ")]


def _plain(text: str) -> str:
    """Return text of the cluster in a form that is safe within a comment or quotes."""
    return one_line(text, 200).encode("ascii", "replace").decode().replace('"', "'").replace("\\", "/")
