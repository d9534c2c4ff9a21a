"""Compilation of a submission to a shared library: the compiler, the architecture, and the command.

The harness owns the command. A task adds flags from a list (`model/build_flags.py`), a submission adds nothing.
"""

import hashlib
import pkgutil
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpc_board.harness.node import nvidia_smi
from hpc_board.harness.processes.output import output_of
from hpc_board.model.build_flags import flags_for
from hpc_board.model.eval_program import EvalProgram
from hpc_board.model.kernels import LIBRARY
from hpc_board.model.result import Log, Verdict
from hpc_board.model.task import Language

HEADER = "hpc_board.h"
CRASH = "crash.cpp"
"""The source of the handler that reports the crash of a submission in C++."""

_ASK_SECONDS = 30
_CUDA_ARCH = re.compile(r"sm_(\d{2,3}[af]?)")
_HIP_ARCH = re.compile(r"gfx[0-9a-f]{3,5}(:[a-z0-9+:-]{1,40})?")
_CPU_ARCH = re.compile(r"[a-z0-9][a-z0-9.+-]{1,60}")
_SPECIFIC_FROM = 90
"""From compute capability 9.0 on, code for a single architecture (sm_90a) may use all of its instructions."""

# A source can name itself like such a message by #line, but a place and a colon would follow the name.
_BROKEN = (
    r"nvcc fatal\s*: (Unsupported gpu architecture|Cannot find compiler|Value 'c\+\+\d\d' is not defined)[^\n:()]*"
    r"|[\w-]*g\+\+[\w.-]*: error: unrecognized command.line option .-std=[^\n:()]*"
    r"|error: invalid value 'c\+\+\d\d' in '-std=c\+\+\d\d'(\nnote: use [^\n:()]*)*"
    r"|clang[+\w-]*: error: (unsupported HIP gpu architecture: \w+|cannot find ROCm[^\n:()]*)"
)
_COMPILERS = {Language.CPP: "g++", Language.CU: "nvcc", Language.HIP: "hipcc"}
_HOMES = {Language.CU: "CUDA_HOME", Language.HIP: "ROCM_PATH"}
_LIBRARIES = ("cuda", "cublas", "cublasLt", "cufft", "curand", "cusparse", "cusolver")
"""The libraries that every CUDA submission may use, where the toolkit has them; `cuda` is the driver's."""

_CPU_FACTS = ("vendor_id", "model name", "cpu family", "model", "stepping", "flags", "CPU part", "Features")

STD = "c++20"
"""The language standard of submissions unless the task's flags or the settings name another one."""

PASSED_TO_COMPILERS = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH")
"""Variables by which a site's modules give compilers the folders of headers and libraries."""


class BuildFailed(Exception):
    """A submission could not be compiled; `log` is the compiler's output, `facts` the known facts of the attempt."""

    def __init__(self, verdict: Verdict, message: str, log: Log | None = None) -> None:
        super().__init__(message)
        self.verdict = verdict
        self.message = message
        self.log = log or Log()
        self.facts: dict[str, Any] = {}


@dataclass(frozen=True)
class Toolchain:
    """A compiler of this node, and its target architecture.

    `std` and `include` are the language standard and the header folders of the settings, `libraries` the options that
    link the libraries of the toolkit. `identity` is text that differs whenever the same command could produce another
    library: the versions of the compiler and of the host compiler, and for code that targets this very CPU also the
    CPU.
    """

    language: Language
    compiler: str
    arch: str
    version: str
    identity: str
    std: str = STD
    include: Sequence[str] = ()
    libraries: Sequence[str] = ()


@dataclass(frozen=True)
class Inside:
    """The place of a compiler: the `command` that runs another one there, and the environment of that command.

    `environ` is the environment inside; `identity` distinguishes the compilers of a container from those of the node.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    environ: Mapping[str, str]
    identity: str = ""

    def output_of(self, command_line: Sequence[str]) -> str:
        """Return the output of a program there; "" if it cannot run or fails."""
        return output_of([*self.command, *command_line], _ASK_SECONDS, self.environment)

    def existing(self, paths: Sequence[str]) -> list[str]:
        """Return those of `paths` that exist there."""
        look = 'for path; do test -e "$path" && echo "$path"; done; true'
        return self.output_of(["/bin/sh", "-c", look, "sh", *paths]).splitlines() if paths else []

    def found(self, name: str, folder: str = "") -> str | None:
        """Return the path of the program `name` on the search path there, or in `folder`."""
        # An empty element of a search path would mean the current folder.
        look = 'PATH="$PATH${2:+:$2}"; command -v "$1"'
        said = self.output_of(["/bin/sh", "-c", look, "sh", name, folder]).strip()
        return said if said.startswith("/") else None

    def version(self, compiler: str) -> str:
        """Return the text with which a compiler states its version.

        Raises:
            BuildFailed: it states none.
        """
        text = self.output_of([compiler, "--version"]).strip()
        if not text:
            message = f"{compiler} does not run on this node: it prints no version"
            raise BuildFailed(Verdict.INFRA_ERROR, message)
        return text[:2000]


def header_text() -> str:
    """Return the header that compiled submissions include."""
    return own_source(HEADER)


def own_source(name: str) -> str:
    """Return a file of this package that is compiled with submissions."""
    data = pkgutil.get_data("hpc_board.harness.build", name)
    if data is None:
        raise FileNotFoundError(name)
    return data.decode()


def compiler_variables(language: Language) -> dict[str, str]:
    """Return the variables that the compiler of `language` needs: where nvcc is installed too, hipcc would call it."""
    return {"HIP_PLATFORM": "amd"} if language is Language.HIP else {}


def toolchain(
    language: Language,
    arch: str,
    environ: Mapping[str, str],
    inside: Inside | None = None,
    *,
    std: str = "",
    include: Sequence[str] = (),
) -> Toolchain:
    """Return this node's compiler for `language`, targeting `arch` if the settings name one, else the node's hardware.

    If submissions are compiled in a container, the compiler is looked up `inside` it. `std` and `include` are those of
    the settings.

    Raises:
        BuildFailed: no compiler was found, a header folder is missing, or the target architecture is unknown.
    """
    if inside is None:
        here = {**environ, **compiler_variables(language)}
        inside = Inside((), here, here)
    compiler = _compiler(language, inside)
    arch = {Language.CPP: _cpu_arch, Language.CU: _cuda_arch, Language.HIP: _hip_arch}[language](arch, environ)
    version = inside.version(compiler)
    identity = [compiler, version, *([inside.identity] if inside.identity else [])]
    if language is Language.CU:
        host = inside.found("g++")
        if host is None:
            raise BuildFailed(Verdict.INFRA_ERROR, "nvcc needs a host compiler, but this node has no g++ in PATH")
        identity += [host, inside.version(host)]
    if arch == "native":
        identity.append(cpu_identity())
    missing = sorted({*include} - {*inside.existing(include)})
    if missing:
        message = f"this node has no folder {missing[0]}, which `include` of the GPU in the settings names"
        raise BuildFailed(Verdict.INFRA_ERROR, message)
    libraries = _cuda_libraries(compiler, inside) if language is Language.CU else []
    return Toolchain(
        language, compiler, arch, _summary(version), "\n".join(identity), std or STD, tuple(include), libraries
    )


def command(
    tools: Toolchain, flags: Sequence[str], source: str, library: str = LIBRARY, *, sanitized: bool = False
) -> list[str]:
    """Return the command that compiles `source` in its own folder; `flags` are the task's flags.

    The code of a CPU is `sanitized` by g++, that of a GPU by the tool that runs it. Else a library for a CPU reports
    the lines of its crash.
    """
    on_cpu = tools.language is Language.CPP
    taken = flags_for(tools.language, flags)
    standard = [] if any(flag.startswith("-std=") for flag in taken) else [f"-std={tools.std}"]
    # Libraries come after the source that needs them.
    libraries = [flag for flag in taken if flag.startswith("-l")]
    others = [flag for flag in taken if not flag.startswith("-l")]
    return [
        tools.compiler,
        *standard,
        "-O3",
        "-shared",
        *_options(tools),
        *((_SANITIZED if sanitized else _TRACED) if on_cpu else ()),
        *others,
        *(f"-I{folder}" for folder in (".", *tools.include)),
        "-o",
        library,
        source,
        *([CRASH] if on_cpu and not sanitized else []),
        *libraries,
        *tools.libraries,
    ]


def program_command(tools: Toolchain, program: EvalProgram, output: str) -> list[str]:
    """Return the command that compiles a task's own eval with the submission to one program, in their folder."""
    own = [flag for flag in program.compile_flags if flag.startswith(("-std=", "--std="))]
    return [
        tools.compiler,
        *([] if own else [f"-std={tools.std}"]),
        "-O3",
        "-DNDEBUG",
        *_options(tools, program=True),
        *(f"-D{name}={value}" if value else f"-D{name}" for name, value in program.defines.items()),
        *program.compile_flags,
        *(f"-I{folder}" for folder in (".", *program.include_dirs, *tools.include)),
        "-o",
        output,
        *program.sources,
        # Libraries come after the sources that need them.
        *(f"-l{name}" for name in program.libraries),
    ]


_LIBRARY_OPTIONS = ("-fPIC", "-fvisibility=hidden", "-Wl,-z,now,-z,relro,-z,defs")
# KernelBot's evals need the first option: they access bytes of one type through pointers to another.
_PROGRAM_OPTIONS = ("-fno-strict-aliasing", "-Wno-psabi")


def _options(tools: Toolchain, *, program: bool = False) -> list[str]:
    """Return the options for the target of a compiler, and for a library or a `program`."""
    host = _PROGRAM_OPTIONS if program else _LIBRARY_OPTIONS
    if tools.language is Language.CPP:
        return [f"-march={tools.arch}", "-fopenmp", "-Wall", *host]
    if tools.language is Language.HIP:
        return [f"--offload-arch={tools.arch}", "-Rpass-analysis=kernel-resource-usage", *host]
    number = tools.arch[len("sm_") :]
    device = [
        "-lineinfo",
        "-gencode",
        # Both SASS and PTX, which mode profile lists.
        f"arch=compute_{number},code=[sm_{number},compute_{number}]",
        "--expt-relaxed-constexpr",
        "--expt-extended-lambda",
        "-Xptxas=-v,--warn-on-spills",
    ]
    if program:
        return [*device, "-forward-unknown-to-host-compiler", *(f"-Xcompiler={option}" for option in host)]
    linker = ["-Xlinker", "-z,now,-z,relro,-z,defs"]
    return ["-x", "cu", *device, "-Xcompiler", "-fPIC,-fvisibility=hidden", *linker]


_TRACED = ("-g",)
_SANITIZED = ("-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fsanitize-recover=address")


def _cuda_libraries(compiler: str, inside: Inside) -> list[str]:
    """Return the options that link those of the toolkit's libraries which a submission uses, found by their folder.

    A library that the toolkit lacks is left out, so that its absence fails only a submission that needs it. The folders
    of stubs are only for the linker: a loader that found the driver's stub would get no driver.
    """
    said = inside.output_of(["/bin/sh", "-c", '"$1" --dryrun x.o 2>&1', "sh", compiler])
    told = re.search(r"^#\$ LIBRARIES=(.*)$", said, re.MULTILINE)
    folders = [word[2:] for word in shlex.split(told[1]) if word.startswith("-L")] if told is not None else []
    folders += [folder for folder in inside.environ.get("LIBRARY_PATH", "").split(":") if folder.startswith("/")]
    files = {f"{folder}/lib{name}.so": (name, folder) for name in _LIBRARIES for folder in folders}
    found = [files[path] for path in inside.existing(list(files))]
    loaded = dict.fromkeys(folder for name, folder in found if name != "cuda" and not folder.endswith("/stubs"))
    return [
        "-Xlinker",
        "--as-needed",
        *dict.fromkeys(f"-l{name}" for name, _ in found),
        *(word for folder in loaded for word in ("-Xlinker", f"-rpath={folder}")),
    ]


def _compiler(language: Language, inside: Inside) -> str:
    name = _COMPILERS[language]
    home = inside.environ.get(_HOMES.get(language, ""), "")
    found = inside.found(name, f"{home}/bin" if home else "")
    if found is None:
        searched = f"PATH, nor in {home}/bin" if home else "PATH"
        where = "the submission container on this node" if inside.command else "this node"
        raise BuildFailed(
            Verdict.INFRA_ERROR,
            f"{where} has no {name} in {searched}, so submissions in {language} cannot be compiled; "
            "`modules` and `env` of the GPU in the settings can add one",
        )
    return found


def _cpu_arch(arch: str, _environ: Mapping[str, str]) -> str:
    """Return the target of g++: the settings' architecture, unless that is a GPU's; else the node's own CPU."""
    if not arch or _CUDA_ARCH.fullmatch(arch) or _HIP_ARCH.fullmatch(arch):
        return "native"
    return _checked(arch, _CPU_ARCH, "x86-64-v3")


def _cuda_arch(arch: str, environ: Mapping[str, str]) -> str:
    if arch:
        return _checked(arch, _CUDA_ARCH, "sm_90a")
    number = _capability(environ)
    if not number:
        raise _unknown_arch("nvidia-smi reports no GPU on this node", "sm_90a")
    return f"sm_{number}{'a' if number >= _SPECIFIC_FROM else ''}"


def _capability(environ: Mapping[str, str]) -> int:
    """Return the compute capability of the job's GPU, 90 for 9.0; 0 if nvidia-smi reports none."""
    first = environ.get("CUDA_VISIBLE_DEVICES", "").partition(",")[0]
    named = re.fullmatch(r"\d{1,3}|(GPU|MIG)-[0-9A-Fa-f-]{8,64}", first) is not None
    rows = nvidia_smi(("compute_cap",), first if named else "", environ, _ASK_SECONDS)
    found = re.fullmatch(r"(\d+)\.(\d)", rows[0][0]) if rows else None
    return int(found[1]) * 10 + int(found[2]) if found else 0


def unlike_arch(arch: str, environ: Mapping[str, str]) -> str:
    """Return the compute capability of the job's GPU if it cannot run code for a CUDA `arch`; else ""."""
    wanted = _CUDA_ARCH.fullmatch(arch)
    if wanted is None:
        return ""
    number, found = int(wanted[1].rstrip("af")), _capability(environ)
    # nvcc's documentation, "GPU Feature List": code for `a` runs only on this capability, for `f` on later ones too.
    fits = found in (0, number) or (found // 10 == number // 10 and found > number and not wanted[1].endswith("a"))
    return "" if fits else f"{found // 10}.{found % 10}"


def _hip_arch(arch: str, environ: Mapping[str, str]) -> str:
    if arch:
        return _checked(arch, _HIP_ARCH, "gfx942")
    found = [
        word
        for word in output_of(["rocm_agent_enumerator"], _ASK_SECONDS, environ).split()
        if _HIP_ARCH.fullmatch(word)
    ]
    real = [word for word in found if word != "gfx000"]
    if not real:
        raise _unknown_arch("rocm_agent_enumerator reports no GPU on this node", "gfx942")
    return real[0]


def _checked(arch: str, pattern: "re.Pattern[str]", example: str) -> str:
    if not pattern.fullmatch(arch):
        message = f"the settings have an invalid `arch` {arch!r}; an example is {example}"
        raise BuildFailed(Verdict.INFRA_ERROR, message)
    return arch


def _unknown_arch(why: str, example: str) -> BuildFailed:
    message = (
        f"the target architecture is unknown: {why}, and the GPU has no `arch` (such as {example}) in the settings"
    )
    return BuildFailed(Verdict.DEVICE_ERROR, message)


def _summary(version: str) -> str:
    """Return the line with the number from a compiler's `--version`; nvcc prints it late."""
    lines = [line.strip() for line in version.splitlines() if re.search(r"\d\.\d", line)]
    named = [line for line in lines if "release" in line]
    return (named or lines or [version.partition("\n")[0]])[0][:200]


def cpu_identity() -> str:
    """Return a digest of everything that `-march=native` may depend on; it differs for another model of CPU."""
    try:
        first = Path("/proc/cpuinfo").read_text(errors="replace").partition("\n\n")[0]
    except OSError:
        first = ""
    facts = [line for line in first.splitlines() if line.partition(":")[0].strip() in _CPU_FACTS]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()


def cache_key(tools: Toolchain, command_line: Sequence[str], source: bytes, environ: Mapping[str, str]) -> str:
    """Return the sha256 of everything that a library depends on, the compiler's environment `environ` included."""
    digest = hashlib.sha256()
    variables = [f"{name}={value}" for name, value in sorted(environ.items())]
    for part in (own_source(HEADER), own_source(CRASH), tools.identity, *command_line, *variables):
        digest.update(len(part.encode()).to_bytes(8, "little") + part.encode())
    digest.update(source)
    return digest.hexdigest()


def broken(output: str) -> bool:
    """Return whether a failed compiler blames the settings or its own installation, and nothing in the source."""
    return re.fullmatch(_BROKEN, output.strip()) is not None
