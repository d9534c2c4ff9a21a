"""Settings for a Slurm cluster from its description: one entry for each kind of GPU, the rest as comments.

A fact from Slurm is a line of the settings. A missing fact, or a decision for the admin, is a comment: a guess never
looks like a fact. The same cluster gives the same text.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
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
    """GPUs that Slurm does not tell apart for a job; `candidates` are the models that features name."""

    type: str
    model: Model | None
    memory: str
    form: str
    mig: str
    by_features: bool
    candidates: tuple[str, ...]

    @property
    def base(self) -> str:
        if self.model is None and not self.mig:
            return board_name([self.type])
        return board_name([self.model.name if self.model else "MIG", self.mig])


class _Offer(msgspec.Struct, frozen=True):
    """GPUs of one kind in one partition; `others` are partitions that have some of the same nodes."""

    kind: _Kind
    partition: Partition
    nodes: tuple[tuple[ClusterNode, int], ...]
    others: tuple[Partition, ...]
    constraint: str
    told_apart: bool
    name: str = ""

    @property
    def count(self) -> int:
        return sum(count for _, count in self.nodes)


def detected_settings(site: ClusterInfo, cluster: str | None = None, board: str | None = None) -> Detected:
    """Return a settings file for the cluster, with the board in the folder `board` if that is known.

    The cluster is called `cluster`, else as Slurm itself calls it.
    """
    own = site.cluster if re.fullmatch(NAME, site.cluster) else "main"
    name = cluster or own
    offers = _named_apart(list(_offers(site)))
    cpu = _cpu_partitions(site)
    entries: list[tuple[str, list[str]]] = [
        (offer.name if _is_known(offer) else "", _entry(offer, name, site)) for offer in offers
    ]
    if cpu:
        entries.append(("CPU", _cpu_entry(cpu, name, site)))
    entries += [("", lines) for lines in _without_gres(site, name)]
    gpus = tuple(found for found, _ in entries if found)
    lines = [*_header(site), *_notes(site, offers), ""]
    if board is None:
        lines += commented("board: /a/folder/that/the/compute/nodes/see", "else the board is in the home folder")
    else:
        lines += [f"board: {quoted(board)}    # compute nodes have to see it under the same path"]
    lines += [""]
    both = ["clusters:", f"  {scalar(name)}: {{scheduler: slurm}}", "", "gpus:"]
    if gpus:
        lines += both
    else:
        lines += [*comment("Nothing below is certain: take the # away from these lines, and from an entry.", "")]
        lines += [f"# {line}" if line else "" for line in both]
    for _, entry in entries:
        lines += [*entry, ""]
    return Detected("\n".join(lines).rstrip("\n") + "\n", gpus)


# Kinds of GPUs


def _offers(site: ClusterInfo) -> Iterator[_Offer]:
    members: dict[_Kind, list[tuple[ClusterNode, int]]] = {}
    for node in site.nodes:
        counts: dict[_Kind, int] = {}
        for gpu in _gpus(node):
            kind = _kind(gpu.type, node.features)
            counts[kind] = counts.get(kind, 0) + gpu.count
        for kind, count in counts.items():
            members.setdefault(kind, []).append((node, count))
    for kind in sorted(members, key=_order):
        for partitions in _components([node for node, _ in members[kind]]):
            usable = [found for found in map(site.partition, partitions) if found and _WORD.fullmatch(found.name)]
            in_each = {each.name: _within(members[kind], each.name) for each in usable}
            ranked = sorted(usable, key=_preference(in_each))
            if ranked:
                nodes = in_each[ranked[0].name]
                constraint, told_apart = _constraint(kind, nodes, _rivals(site, kind, ranked[0].name))
                yield _Offer(kind, ranked[0], nodes, tuple(ranked[1:]), constraint, told_apart)


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
    candidates = tuple(each.model.name for each in others if each.model) if found.model is None else ()
    by_features = found.model is not None and said.model is None
    return _Kind(type_, found.model, memory, found.form, found.mig, by_features, candidates)


def _gpu_memory(feature: str) -> str:
    folded = feature.lower()
    return parse_gpu_name(feature).memory if "gpu" in folded and "mem" in folded else ""


def _order(kind: _Kind) -> tuple[object, ...]:
    known = list(MODELS).index(kind.model.name) if kind.model else len(MODELS)
    return (known, kind.mig, kind.memory, kind.form, kind.type, kind.candidates)


def _components(nodes: Iterable[ClusterNode]) -> list[list[str]]:
    """Group the partitions of these nodes: those that share nodes are together."""
    groups: list[set[str]] = []
    for node in nodes:
        joined = set(node.partitions)
        apart = []
        for group in groups:
            if group.isdisjoint(joined):
                apart.append(group)
            else:
                joined |= group
        groups = [*apart, joined]
    return sorted(sorted(group) for group in groups)


def _within(members: Iterable[tuple[ClusterNode, int]], partition: str) -> tuple[tuple[ClusterNode, int], ...]:
    return tuple((node, count) for node, count in members if partition in node.partitions)


def _preference(
    in_each: dict[str, tuple[tuple[ClusterNode, int], ...]],
) -> Callable[[Partition], tuple[object, ...]]:
    """Return the sort key of partitions with the same GPUs: first one open to all with the most GPUs."""

    def key(partition: Partition) -> tuple[object, ...]:
        gpus = sum(count for _, count in in_each[partition.name])
        closed = (partition.root_only, partition.reservation_only, not partition.open_to_all)
        return (not partition.up, *closed, partition.preempted, -gpus, not partition.default, partition.name)

    return key


def _rivals(site: ClusterInfo, kind: _Kind, partition: str) -> list[ClusterNode]:
    """Return the nodes of a partition with GPUs of another kind that the same request would get."""
    return [
        node
        for node in site.nodes
        if partition in node.partitions
        and any(gpu.type == kind.type or not kind.type for gpu in _gpus(node))
        and all(_kind(gpu.type, node.features) != kind for gpu in _gpus(node))
    ]


def _constraint(
    kind: _Kind, nodes: Sequence[tuple[ClusterNode, int]], rivals: Sequence[ClusterNode]
) -> tuple[str, bool]:
    """Return the features to request beside the GPU, "" for none, and whether they exclude the `rivals`."""
    if kind.model is None or (kind.type and not rivals):
        return "", not rivals
    common = set(nodes[0][0].features).intersection(*(node.features for node, _ in nodes))
    usable = sorted((word for word in common if _WORD.fullmatch(word)), key=lambda word: (len(word), word))
    naming = [word for word in usable if parse_gpu_name(word).model == kind.model]
    telling = naming + [word for word in usable if word not in naming and _gpu_memory(word)]
    alone = [word for word in telling if not any(word in rival.features for rival in rivals)]
    if kind.type:
        return (alone[0], True) if alone else ("", False)
    by_name = [word for word in alone if word in naming]
    words = by_name[:1] or naming[:1] + alone[:1] if alone else telling
    return "&".join(words), not any(set(words) <= set(rival.features) for rival in rivals)


def _cpu_partitions(site: ClusterInfo) -> list[tuple[Partition, list[ClusterNode]]]:
    """Return the partitions without GPUs, the one to begin with first."""
    with_gpus = {name for node in site.nodes if _has_gpus(node) for name in node.partitions}
    found = []
    for partition in site.partitions:
        nodes = [node for node in site.nodes if partition.name in node.partitions]
        if nodes and partition.name not in with_gpus and _WORD.fullmatch(partition.name) and not partition.root_only:
            found.append((partition, nodes))
    return sorted(
        found,
        key=lambda pair: (
            not pair[0].up,
            pair[0].reservation_only,
            not pair[0].open_to_all,
            pair[0].preempted,
            not pair[0].default,
            -sum(node.cpus for node in pair[1]),
            pair[0].name,
        ),
    )


def _has_gpus(node: ClusterNode) -> bool:
    return bool(_gpus(node)) or _model_without_gres(node) is not None


def _model_without_gres(node: ClusterNode) -> Model | None:
    """Return the model of GPU that a node's features name although Slurm counts none there."""
    if _gpus(node):
        return None
    found = parse_gpu_names(word for word in node.features if len(word) > 3 or word.lower().startswith("gpu"))
    return found[0].model if len(found) == 1 else None


# Names


def _named_apart(offers: Sequence[_Offer]) -> list[_Offer]:
    """Return the offers, each with a unique name: as short as tells it from those before it."""
    taken: set[str] = set()
    named_: list[_Offer] = []
    for offer in offers:
        kind = offer.kind
        alike = {(each.kind.memory, each.kind.form) for each in offers if each.kind.base == kind.base}
        words = [kind.base]
        if len({memory for memory, _ in alike}) > 1:
            words.append(kind.memory)
        if len({form for _, form in alike}) > 1:
            words.append(kind.form)
        name = _free(words, offer.partition.name, taken)
        taken.add(name.casefold())
        named_.append(replace(offer, name=name))
    return named_


def _free(words: Sequence[str], partition: str, taken: set[str]) -> str:
    tries = [board_name(words), board_name([*words, partition])]
    tries += [f"{board_name([*words, partition])[:60] or 'GPU'}-{number}" for number in range(2, 1000)]
    return next(name for name in tries if name and name.casefold() not in (*taken, "all", "cpu"))


# Text


def _header(site: ClusterInfo) -> Iterator[str]:
    release = f", Slurm {_plain(site.version)}" if site.version else ""
    yield from comment(
        f"Settings of hpc-board for the cluster {_plain(site.cluster) or 'without a name'}{release}, as "
        "`hpc-board admin detect` found it. Keys behind # need your choice: Slurm does not report their values. "
        "Then test each entry with a short job: `hpc-board admin check`.",
        "",
    )


def _notes(site: ClusterInfo, offers: Sequence[_Offer]) -> Iterator[str]:
    """Yield the comments for all entries."""
    notes = [f"Not known: {_plain(why)}." for why in site.unknown]
    select = site.configuration.get("SelectType", "")
    if select == "select/linear":
        notes.append("SelectType is select/linear: jobs get whole nodes, and only --gres asks for GPUs.")
    elif select == "select/cons_tres" and offers:
        notes.append("SelectType is select/cons_tres: `gpus` and `gpus-per-node` work as styles of request, too.")
    if site.accounts_enforced:
        notes.append("Jobs need an account here: `sacctmgr show assoc user=$USER` lists yours, for the key `account`.")
    plugins = [site.configuration.get(key, "") for key in ("JobSubmitPlugins", "CliFilterPlugins")]
    if any(plugins):
        notes.append(f"The site checks jobs by rules of its own ({_plain(', '.join(filter(None, plugins)))}).")
    shared = sorted({gres.name for node in site.nodes for gres in gres_list(node.gres)} & {"mps", "shard"})
    if shared:
        notes.append(f"GPUs are also handed out in shares ({', '.join(shared)}); the entries ask for whole ones.")
    if offers:
        notes.append(
            "Every entry needs the key `python`: one with PyTorch that the nodes can start; or `container`, an image "
            "that has it. Times are best with `exclusive: true`, where jobs may have whole nodes."
        )
    for note in notes:
        yield "#"
        yield from comment(note, "")


def _is_known(offer: _Offer) -> bool:
    """Return whether Slurm has all facts of an entry: the model, its request, and the permission."""
    partition = offer.partition
    return (
        offer.kind.model is not None
        and offer.told_apart
        and bool(offer.kind.type == "" or _WORD.fullmatch(offer.kind.type))
        and not (partition.root_only or partition.reservation_only)
    )


def _entry(offer: _Offer, cluster: str, site: ClusterInfo) -> list[str]:
    kind, partition = offer.kind, offer.partition
    request = f"gpu:{kind.type}:1" if kind.type else "gpu:1"
    lines = [f"  {scalar(offer.name)}:", f"    cluster: {scalar(cluster)}"]
    lines.append(f"    partition: {scalar(partition.name)}")
    lines.append(f'    request: {{style: gres, value: "{_plain(request)}"}}')
    if offer.constraint:
        lines.append(f"    constraint: {scalar(offer.constraint)}")
    if kind.model is not None and kind.model.device is not Device.CUDA:
        lines.append(f"    device: {kind.model.device}")
    if kind.model is not None and kind.model.arch:
        lines.append(f"    arch: {kind.model.arch}")
    limit = partition.max_time_seconds
    if limit is not None and limit <= _SHORT_SECONDS:
        lines.append(f'    time: "{time_limit(limit)}"')
    told = [line for about in _about(offer) for line in comment(about, "  ")]
    lines += _to_decide(offer, site)
    return [*told, *(lines if _is_known(offer) else (f"  # {line[2:]}" for line in lines))]


def _about(offer: _Offer) -> Iterator[str]:
    """Return the findings, in sentences."""
    kind, partition = offer.kind, offer.partition
    calls = f"Slurm's type is {_plain(kind.type)}" if kind.type else "Slurm has no type for them"
    yield f"{_count_text(offer)}. {calls}."
    if kind.model is None:
        if kind.candidates:
            yield f"Which model they are is open: the nodes' features name {', '.join(kind.candidates)}."
        else:
            hint = parse_gpu_name(partition.name).model
            suggests = f"; the partition's name suggests {hint.name}" if hint else ""
            yield f"Their model is not known{suggests}. A name, `device` and `arch` are for you to add."
    elif kind.by_features:
        yield f"That they are {kind.model.name} is what the nodes' features say."
    qualities = " ".join(filter(None, (kind.memory, kind.form)))
    if qualities and kind.model is not None:
        yield f"Slurm's words for them say {qualities}."
    if kind.mig:
        yield f"They are slices of GPUs (MIG {kind.mig}): other slices of the same GPU are others' and cost time."
    if not offer.told_apart:
        yield "Slurm does not tell them from other GPUs of the partition: name nodes with `nodelist` or `exclude`."
    if partition.root_only or partition.reservation_only:
        who = "root alone" if partition.root_only else "jobs with a reservation alone (key `reservation`)"
        yield f"The partition takes {who}."
    if not partition.up:
        yield "The partition is not up now."
    for other in offer.others:
        limit = f"up to {time_limit(other.max_time_seconds)}" if other.max_time_seconds else "no time limit"
        whose = "" if other.open_to_all else ", not open to all"
        yield f"Some of these nodes are in partition {_plain(other.name)}, too ({limit}{whose}): decide which to use."


def _count_text(offer: _Offer) -> str:
    nodes = [node for node, _ in offer.nodes]
    names = ", ".join(_plain(node.name) for node in nodes[:_NODES_SHOWN])
    more = f" and {len(nodes) - _NODES_SHOWN} more" if len(nodes) > _NODES_SHOWN else ""
    away = sum(not node.up for node in nodes)
    down = f"; {away} of {len(nodes)} not usable now" if away else ""
    what = "GPU" if offer.count == 1 else "GPUs"
    return f"{offer.count} {what} on {names}{more}{down}"


def _to_decide(offer: _Offer, site: ClusterInfo) -> Iterator[str]:
    partition = offer.partition
    if offer.kind.model is not None and not offer.kind.model.arch:
        yield from commented("arch: sm_..", "several models have this name", indent="    ")
    yield from _limits(partition)
    if partition.accounts:
        yield from commented("account: NAME", f"one of {_plain(partition.accounts)}", indent="    ")
    elif site.accounts_enforced:
        yield from commented("account: NAME", "an account of yours", indent="    ")
    if partition.qos:
        yield from commented("qos: NAME", f"one of {_plain(partition.qos)}", indent="    ")
    if partition.groups:
        yield from comment(f"Only these groups may use the partition: {_plain(partition.groups)}", "    ")
    if partition.preempted:
        yield from comment("Jobs of this partition may be ended for others (PreemptMode).", "    ")
    node, count = min(offer.nodes, key=lambda pair: pair[0].cpus // pair[1])
    whole = site.configuration.get("SelectType") == "select/linear"
    yield from _share(
        partition,
        node.cpus,
        whole=whole,
        gpus=1,
        wanted=MEMORY_MIB,
        about=f"{node.cpus} CPUs for {count} of these GPUs",
    )
    yield from commented("python: /a/path/to/python", indent="    ")


def _share(partition: Partition, node_cpus: int, *, whole: bool, gpus: int, wanted: int, about: str) -> Iterator[str]:
    """Yield the keys for CPUs and memory where a job that asks for none gets too little."""
    share, cpus = partition.share, None
    if not whole and node_cpus >= CPUS > share.cpus(None, gpus):
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
        yield f"    memory: {most}M    # the most that the partition allows; ranked runs may need {wanted} MiB"
    else:
        yield f"    memory: {wanted}M    # without it a job has {own} MiB"


def _limits(partition: Partition) -> Iterator[str]:
    limit = partition.max_time_seconds
    if limit is not None and limit > _SHORT_SECONDS:
        yield from commented(
            f'time: "{time_limit(limit)}"', "what the partition allows; else a task says how long", indent="    "
        )


def _cpu_entry(found: Sequence[tuple[Partition, list[ClusterNode]]], cluster: str, site: ClusterInfo) -> list[str]:
    partition, nodes = found[0]
    lines = list(comment(f"{len(nodes)} {'node' if len(nodes) == 1 else 'nodes'} without GPUs.", "  "))
    for other, _ in found[1:]:
        lines += comment(f"Partition {_plain(other.name)} has no GPUs either: decide which to use.", "  ")
    lines += ["  CPU:", f"    cluster: {scalar(cluster)}", f"    partition: {scalar(partition.name)}"]
    lines.append("    request: {style: none}")
    if partition.max_time_seconds is not None and partition.max_time_seconds <= _SHORT_SECONDS:
        lines.append(f'    time: "{time_limit(partition.max_time_seconds)}"')
    lines += _limits(partition)
    least = min((node.cpus for node in nodes), default=0)
    whole = site.configuration.get("SelectType") == "select/linear"
    lines += _share(partition, least, whole=whole, gpus=0, wanted=CPU_MEMORY_MIB, about=f"{least} CPUs on each node")
    return [*lines, *commented("python: /a/path/to/python", indent="    ")]


def _without_gres(site: ClusterInfo, cluster: str) -> Iterator[list[str]]:
    """Report nodes whose features name a GPU that Slurm does not count: a job may have to request whole nodes."""
    found: dict[tuple[str, str], list[ClusterNode]] = {}
    for node in site.nodes:
        model = _model_without_gres(node)
        if model is not None:
            for partition in node.partitions:
                found.setdefault((model.name, partition), []).append(node)
    for (model_name, partition), nodes in sorted(found.items()):
        words = [word for word in nodes[0].features if parse_gpu_name(word).model and _WORD.fullmatch(word)]
        if words and _WORD.fullmatch(partition):
            lines = list(
                comment(
                    f"Features of {len(nodes)} nodes of partition {partition} name {model_name}, but Slurm counts no "
                    "GPUs there. If jobs get whole nodes there, this may be how to ask:",
                    "  ",
                )
            )
            lines += [f"  # {board_name([model_name, partition])}:", f"  #   cluster: {scalar(cluster)}"]
            lines += [f"  #   partition: {scalar(partition)}", "  #   exclusive: true"]
            yield [*lines, f'  #   request: {{style: constraint, value: "{words[0]}"}}']


def _plain(text: str) -> str:
    """Return text of the cluster in a form that is safe within a comment or quotes."""
    return one_line(text, 200).encode("ascii", "replace").decode().replace('"', "'").replace("\\", "/")
