"""GPU models: their names on boards, in drivers, in Slurm's AutoDetect and at sites.

A text such as `nvidia_h100_80gb_hbm3`, `gpu_v100`, `GPU_SKU:H100_SXM5` or "NVIDIA A100-SXM4-80GB" is searched for the
names of the table `MODELS`; the longest name that occurs as a word counts. The architectures are the compute
capabilities of https://developer.nvidia.com/cuda-gpus and https://developer.nvidia.com/cuda-legacy-gpus, with the `a`
that nvcc wants for all of an architecture's instructions from 9.0 on, and the LLVM targets of
https://rocm.docs.amd.com/en/latest/reference/gpu-arch-specs.html.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

import msgspec

from hpc_board.model.gpu import Device
from hpc_board.model.names import NAME

_CUDA: dict[str, str] = {
    "sm_121a": "GB10",
    "sm_120a": "RTX-PRO-6000 RTX-5090 RTX-5080 RTX-5070 RTX-5070-Ti",
    "sm_103a": "B300 GB300",
    "sm_100a": "B200 GB200",
    "sm_90a": "H100 H200 GH200 H800 H20",
    "sm_89": "L4 L20 L40 L40S RTX-6000-Ada RTX-5000-Ada RTX-4000-Ada RTX-4090 RTX-4080 RTX-4070 RTX-4070-Ti",
    "sm_86": "A2 A10 A10G A16 A40 A4000 A4500 A5000 A5500 A6000 RTX-3090 RTX-3090-Ti RTX-3080 RTX-3080-Ti RTX-3070",
    "sm_80": "A30 A100 A800",
    "sm_75": "T4 RTX-8000 RTX-2080 RTX-2080-Ti TITAN-RTX",
    "sm_70": "V100 V100S TITAN-V",
    "sm_61": "P4 P40 GTX-1080 GTX-1080-Ti TITAN-Xp",
    "sm_60": "P100",
    "sm_52": "M40 M60",
    "sm_37": "K80",
    "sm_35": "K20 K40",
    # Quadro (7.5), Ada (8.9) and PRO (12.0) have it alike
    "": "RTX-6000",
}
_HIP: dict[str, str] = {
    "gfx950": "MI350X MI355X",
    "gfx942": "MI300A MI300X MI308X MI325X",
    "gfx90a": "MI210 MI250 MI250X",
    "gfx908": "MI100",
    "gfx906": "MI50 MI60",
}
_OTHER_NAMES: dict[str, str] = {
    "RTX A4000": "A4000",
    "RTX A4500": "A4500",
    "RTX A5000": "A5000",
    "RTX A5500": "A5500",
    "RTX A6000": "A6000",
    "2080 Ti": "RTX-2080-Ti",
    "1080 Ti": "GTX-1080-Ti",
    "Ada 6000": "RTX-6000-Ada",
    "A6000 Ada": "RTX-6000-Ada",
    "A100L": "A100",
    "V100L": "V100",
    "P100L": "P100",
    "V100X": "V100",
}
"""Names of a model at sites and in drivers, besides its own."""


class Model(msgspec.Struct, frozen=True):
    """A model of GPU: the name that boards use, its kind of device, and the architecture, "" where not known."""

    name: str
    device: Device
    arch: str


class GpuDescription(msgspec.Struct, frozen=True):
    """The description of a GPU in a text.

    `model` is None if the text names no model of the table. `memory` ("80GB"), `form` ("SXM", "PCIe", "NVL") and the
    MIG profile `mig` ("3g.20gb") are "" if it does not name them.
    """

    model: Model | None
    memory: str = ""
    form: str = ""
    mig: str = ""


MODELS: dict[str, Model] = {
    name: Model(name, device, arch)
    for device, table in ((Device.CUDA, _CUDA), (Device.HIP, _HIP))
    for arch, names in table.items()
    for name in names.split()
}
"""The models that are known, by the names that boards use."""

_SEPARATOR = "[^a-z0-9]{0,3}"
_PREFIX = "(?<![a-z0-9])(?:gpu|nvidia|tesla|quadro|geforce|amd|instinct)?"
_SUFFIX = "(?:(?:pcie?|s[xm]{2}[0-9]?|nvl|oam|[0-9]{2,3}gb?)(?![a-z])|(?![a-z0-9]))"
_MIG = re.compile(r"(?<![a-z0-9])[1-9]g\.[0-9]{1,3}gb(?:\.me)?(?![a-z0-9])")
_MEMORY = re.compile(r"(?<![a-z0-9.])([1-9][0-9]{1,2})gb?(?![a-z0-9])|[_-](16|24|32|40|48|64|80|94|96|141)$")
_FORM = re.compile(r"(?:(s[xm]{2}|hbm3(?!e))|(pcie?)|(nvl))[0-9]?(?![a-z0-9])")


_ALIASES: list[tuple[tuple[str, ...], str]] = [
    (tuple(re.split(r"[- ]", alias.lower())), name)
    for alias, name in sorted(
        {**{name: name for name in MODELS}, **_OTHER_NAMES}.items(), key=lambda pair: (-len(pair[0]), pair[0])
    )
]
"""The words of each alias, the longest alias first, and the name that boards use."""


def _says(text: str, words: tuple[str, ...]) -> bool:
    # Every command meets names of GPUs, and few of the patterns are ever needed: compiling all takes it 20 ms.
    if not all(word in text for word in words):
        return False
    return re.search(_PREFIX + _SEPARATOR.join(map(re.escape, words)) + _SUFFIX, text) is not None


@lru_cache(maxsize=4096)
def parse_gpu_name(text: str) -> GpuDescription:
    """Find the longest name of the table in `text`, with the memory, form and MIG profile beside it."""
    folded = text[:200].lower()
    mig = _MIG.search(folded)
    bare = _MIG.sub(" ", folded)
    model = next((MODELS[name] for words, name in _ALIASES if _says(bare, words)), None)
    # The number in the name of a superchip is about its CPU's memory.
    memory = None if model is not None and model.name.startswith("G") else _MEMORY.search(bare)
    form = _FORM.search(bare)
    forms = dict(zip((1, 2, 3), ("SXM", "PCIe", "NVL"), strict=True))
    return GpuDescription(
        model,
        memory=f"{memory[1] or memory[2]}GB" if memory else "",
        form=next((word for group, word in forms.items() if form and form[group]), ""),
        mig=mig[0] if mig else "",
    )


def parse_gpu_names(texts: Iterable[str]) -> list[GpuDescription]:
    """Return one description for each model in `texts`, in the order of the models' names."""
    found: dict[str, GpuDescription] = {}
    for each in map(parse_gpu_name, texts):
        if each.model is not None:
            known = found.get(each.model.name, each)
            found[each.model.name] = GpuDescription(
                each.model, known.memory or each.memory, known.form or each.form, known.mig or each.mig
            )
    return [found[name] for name in sorted(found)]


def gpu_model_name(model: str) -> str:
    """Return a board's name for the GPU model of a driver: "NVIDIA A100-SXM4-80GB" is an A100."""
    known = parse_gpu_name(model).model
    if known is not None:
        return known.name
    short = re.search(r"\b[A-Z]{1,2}[0-9]{1,4}[A-Z]?\b", model)
    if short:
        return short[0]
    words = [word for word in re.findall(r"[A-Za-z0-9]+", model) if word not in ("NVIDIA", "GeForce", "Tesla")]
    return "-".join(words)[:64].rstrip("-") or "GPU"


def name_mismatch(board: str, found: str, *, mig: bool = False) -> str:
    """Return why the driver's GPU `found`, or a `mig` slice of it, does not fit the board's name; "" if it fits.

    A name without a model fits every GPU.
    """
    wanted, is_ = parse_gpu_name(board), parse_gpu_name(found)
    if wanted.model is not None and wanted.model != is_.model:
        return f"it is {found}, but the name says {wanted.model.name}"
    for kind, asked, got in (("memory", wanted.memory, is_.memory), ("form", wanted.form, is_.form)):
        if asked and got and asked != got:
            return f"its {kind} is {got}, but the name says {asked}"
    if wanted.mig and not (mig or is_.mig):
        return f"it is a whole {found}, but the name says MIG slice {wanted.mig}"
    if wanted.model is not None and not wanted.mig and "mig" not in board.lower() and (mig or is_.mig):
        return "it is a slice of a GPU (MIG), but the name says a whole GPU"
    return ""


def board_name(words: Iterable[str]) -> str:
    """Return a board's name from `words`, without invalid characters; "" if nothing is left."""
    joined = "-".join(cleaned for cleaned in (re.sub(r"[^A-Za-z0-9._+-]", "", word) for word in words) if cleaned)
    name = re.sub(r"^[^A-Za-z0-9]+", "", joined)[:64]
    return name if re.fullmatch(NAME, name) else ""
