"""The GPUs of a job: their number, and the device files that its confined processes may open.

A job's GPUs are those whose device files the node lets it open (Slurm's ConstrainDevices), and among these the ones
that its environment names, by index in the order of PCI addresses or by UUID.
"""

import os
import re
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_NVIDIA_VISIBLE = ("CUDA_VISIBLE_DEVICES",)
_AMD_VISIBLE = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
_INDEX = re.compile(r"[0-9]{1,3}")
_UUID = re.compile(r"(MIG-)?(GPU-[0-9A-Fa-f-]{4,64})(?:/([0-9]{1,3})/([0-9]{1,3}))?|MIG-[0-9A-Fa-f-]{4,64}")
_LINE = re.compile(r"^([A-Za-z_ ]+?)(?::|[ \t])[ \t]*(\S+)[ \t]*$", re.MULTILINE)


class JobGpus(NamedTuple):
    """The number of a job's GPUs, and the device files that belong to them."""

    number: int
    files: Sequence[str]


class _Gpu(NamedTuple):
    """A GPU that the job may open; `minor` is its number in /dev."""

    file: str
    minor: str
    uuid: str


class _Choice(NamedTuple):
    """The number of the GPUs that an environment names, and these GPUs; None if they cannot be told."""

    number: int
    gpus: Sequence[_Gpu] | None


def _may_open(path: Path) -> bool:
    """Return whether this process may open a device file: by its mode, and by the rules of its control group."""
    return os.access(path, os.R_OK | os.W_OK)


def job_gpus(
    device: str, environ: Mapping[str, str], root: Path = Path("/"), may_open: Callable[[Path], bool] = _may_open
) -> JobGpus:
    """Return the GPUs of the kind "cuda" or "hip" that a job with this environment has; none for "cpu".

    The files of all GPUs remain where those of the job cannot be told. `root` is the folder with `dev`, `proc`, `sys`.
    """
    if device == "cuda":
        return _nvidia(environ, root, may_open)
    return _amd(environ, root, may_open) if device == "hip" else JobGpus(0, ())


def see_one(device: str, environ: MutableMapping[str, str]) -> None:
    """Have the environment name the first GPU that it names so far, for a job whose whole node has several."""
    names = {"cuda": _NVIDIA_VISIBLE, "hip": _AMD_VISIBLE}.get(device, ())
    for name in [each for each in names if each in environ] or names[:1]:
        environ[name] = environ.get(name, "0").partition(",")[0]


def _nvidia(environ: Mapping[str, str], root: Path, may_open: Callable[[Path], bool]) -> JobGpus:
    dev, driver = root / "dev", root / "proc/driver/nvidia"
    nodes = sorted(str(each) for each in dev.glob("nvidia*") if re.fullmatch(r"nvidia[0-9]+", each.name))
    common = sorted(str(each) for each in dev.glob("nvidia*") if str(each) not in nodes)
    known = []
    for information in sorted(driver.glob("gpus/*/information")):
        values = _values(information)
        minor = values.get("Device Minor", "")
        if may_open(dev / f"nvidia{minor}"):
            known.append(_Gpu(str(dev / f"nvidia{minor}"), minor, values.get("GPU UUID", "")))
    if not known:
        opened = sum(may_open(Path(each)) for each in nodes)
        return JobGpus(_named(environ, _NVIDIA_VISIBLE, opened), (*common, *nodes))
    count, gpus = _chosen(environ, _NVIDIA_VISIBLE, known)
    capabilities = _capabilities(environ.get(_NVIDIA_VISIBLE[0], ""), gpus, dev, driver)
    if capabilities:
        common = [each for each in common if each != str(dev / "nvidia-caps")]
    own = nodes if gpus is None else list(dict.fromkeys(each.file for each in gpus))
    return JobGpus(count, (*common, *own, *capabilities))


def _capabilities(visible: str, gpus: Sequence[_Gpu] | None, dev: Path, driver: Path) -> Sequence[str]:
    """Return the files of a MIG device that is named by its GPU and its instances; else none."""
    named = _UUID.fullmatch(visible)
    if named is None or named[3] is None or not gpus:
        return ()
    instance = driver / f"capabilities/gpu{gpus[0].minor}/mig/gi{named[3]}"
    minors = [_values(each / "access").get("DeviceFileMinor", "") for each in (instance, instance / f"ci{named[4]}")]
    return [str(dev / f"nvidia-caps/nvidia-cap{minor}") for minor in minors] if all(minors) else ()


def _amd(environ: Mapping[str, str], root: Path, may_open: Callable[[Path], bool]) -> JobGpus:
    dev, known = root / "dev", []
    if not (dev / "kfd").exists():
        return JobGpus(0, ())
    nodes = sorted((root / "sys/class/kfd/kfd/topology/nodes").glob("*"), key=lambda each: (len(each.name), each.name))
    for node in nodes:
        values = _values(node / "properties")
        minor, number = values.get("drm_render_minor", "0"), values.get("unique_id", "")
        file = dev / f"dri/renderD{minor}"
        if minor != "0" and may_open(file):
            known.append(_Gpu(str(file), minor, f"GPU-{int(number):016x}" if number.isdigit() else ""))
    if not known:
        files = sorted(map(str, dev.glob("dri/*")))
        opened = sum(may_open(Path(each)) for each in files if "/renderD" in each)
        return JobGpus(_named(environ, _AMD_VISIBLE, opened), (str(dev / "kfd"), *files))
    count, gpus = _chosen(environ, _AMD_VISIBLE, known)
    return JobGpus(count, (str(dev / "kfd"), *(each.file for each in (known if gpus is None else gpus))))


def _chosen(environ: Mapping[str, str], names: Sequence[str], known: Sequence[_Gpu]) -> _Choice:
    """Return the GPUs that each variable in turn leaves of `known`."""
    left = known
    for name in names:
        if name not in environ:
            continue
        chosen: list[_Gpu] = []
        for word in _words(environ[name]):
            found = [left[int(word)]] if _INDEX.fullmatch(word) and int(word) < len(left) else _with_uuid(word, left)
            if not found and _INDEX.fullmatch(word):
                break  # CUDA, too, takes no device from here on
            if len(found) != 1:
                return _Choice(_named(environ, names, len(known)), None)
            chosen += found
        left = chosen
    return _Choice(len(left), left)


def _with_uuid(word: str, gpus: Sequence[_Gpu]) -> Sequence[_Gpu]:
    """Return the GPUs whose UUID begins as `word`; the only GPU for a MIG device, whose UUID does not name its GPU."""
    named = _UUID.fullmatch(word)
    if named is None:
        return ()
    if named[2] is None:
        return gpus if len(gpus) == 1 else ()
    return [each for each in gpus if each.uuid.lower().startswith(named[2].lower())]


def _named(environ: Mapping[str, str], names: Sequence[str], opened: int) -> int:
    """Return the least number of devices that a variable names; `opened` without such a variable."""
    return min([opened, *(len(_words(environ[name])) for name in names if name in environ)])


def _words(text: str) -> Sequence[str]:
    """Return the indices and UUIDs in a variable, up to the first word that is neither."""
    words = []
    for word in text.split(","):
        if not (_INDEX.fullmatch(word.strip()) or _UUID.fullmatch(word.strip())):
            break
        words.append(word.strip())
    return words


def _values(file: Path) -> Mapping[str, str]:
    """Return the one-word values of a driver's file by their names; none of a file that cannot be read."""
    with suppress(OSError):
        return dict(_LINE.findall(file.read_text(encoding="utf-8", errors="replace")))
    return {}
