"""Means of a submission: the kinds of kernels and the libraries that it uses, and a task's rule about them."""

import re
from collections.abc import Iterable, Mapping, Sequence

from hpc_board.model.kernels import Used
from hpc_board.model.task import MeansRule
from hpc_board.model.value import Value


class Marks(Value):
    """The marks of a means; "" stands for none.

    `kernel` is a regular expression of the beginning of a kernel's name, `library` one of that of a file's name, and
    `modules` are modules of Python. Kernels of the submission's `own_code` have names of its own.
    """

    kernel: str = ""
    library: str = ""
    modules: tuple[str, ...] = ()
    own_code: bool = False

    @property
    def has_kernels(self) -> bool:
        """Return whether kernels prove it."""
        return bool(self.kernel) or self.own_code

    @property
    def is_only_library(self) -> bool:
        """Return whether only a loaded library proves it."""
        return bool(self.library) and not self.kernel


# In this order, since cuDNN, cuBLAS and PyTorch contain kernels made with CUTLASS and CUB.
KINDS: Mapping[str, Marks] = {
    "cudnn": Marks(r"cudnn|xmma_(?:fprop|dgrad|wgrad)|implicit_convolve", r"libcudnn"),
    "cublas": Marks(
        r"cublas|^nvjet_|xmma_gemm|^(?:maxwell|volta|turing|ampere|hopper)_\w*gemm|^gemv2[NT]_|^gemvNSP_|^gemmSN_"
        r"|^splitKreduce_kernel|^cutlass::Kernel2?<cutlass_\d",
        r"libcublas",
    ),
    "cufft": Marks(r"^(?:vector|regular|multi_bluestein|composite_\w+)_fft", r"libcufft"),
    "cusparse": Marks("^cusparse::", "libcusparse"),
    "cusolver": Marks("cusolver", "libcusolver"),
    "rocblas": Marks("^Cijk_|^rocblas_", "lib(?:rocblas|hipblas|Tensile)"),
    "miopen": Marks("^miopen|^igemm_", "libMIOpen"),
    "torch": Marks(r"^at::|^at_cuda_detail::|^c10::|^pytorch_flash::|^fmha_|^PyTorchMemEffAttention::"),
    "cutlass": Marks("^cutlass::|^cute::|^kernel_cutlass_", "", ("cutlass",)),
    "cub": Marks("^cub::|^thrust::|^hipcub::|^rocprim::"),
    "numba": Marks("^cudapy::|^_ZN6cudapy", "", ("numba",)),
    "cupy": Marks("^cupy_", "", ("cupy",)),
    "triton": Marks("^triton_|^_helion_", "", ("triton", "helion")),
    "jax": Marks("", "", ("jax", "jaxlib")),
    "openblas": Marks("", r"lib(?:scipy_)?openblas"),
    "mkl": Marks("", "libmkl_"),
    "blis": Marks("", "libblis"),
    "blas": Marks("", r"lib(?:c?blas|gslcblas|atlas|satlas|tatlas)\.so"),
    "onednn": Marks("", "libdnnl"),
    "fftw": Marks("", "libfftw3"),
    "cuda": Marks(own_code=True),
    "hip": Marks(own_code=True),
}
"""The means by name; `cuda` and `hip` are the other kernels of a submission in CUDA or HIP, or of such code in it."""

GLOBAL = "__global__"
"""The word before a kernel in CUDA and HIP."""

OTHER = "other"
"""The name of kernels of no known kind."""

_PYTHON_FUNCTION = re.compile(r"^[ \t]*def[ \t]+(\w+)", re.MULTILINE)
_TRITON_2 = re.compile(r"_0[cde]*(?:[1-9][\dcde]*)?$")
_COPY = re.compile(r"Mem(?:cpy|set)\b")


def kernel_means(names: Iterable[str], source: str) -> tuple[Used, ...]:
    """Return the kinds of the launched kernels with these names, the most frequent first.

    A kernel of Triton has the name of its function in the `source`. Triton 2 adds the number of each argument, with
    letters for its specialization: `add_0d1d2d34c`.
    """
    functions = set(_PYTHON_FUNCTION.findall(source)) if "triton" in source else set()
    own = own_code(source)
    counts: dict[str, int] = {}
    for name in dict.fromkeys(names):
        if not _COPY.match(name):
            kind = _kind_of(name, functions) or own
            counts[kind] = counts.get(kind, 0) + 1
    return tuple(Used(kind, count) for kind, count in sorted(counts.items(), key=lambda each: (-each[1], each[0])))


def own_code(source: str) -> str:
    """Return the kind of the kernels that a text defines in CUDA or HIP, else `OTHER`."""
    return "hip" if "hip/hip_runtime" in source else "cuda" if GLOBAL in source else OTHER


def _kind_of(name: str, functions: set[str]) -> str:
    """Return the kind of a kernel by the beginning of its name, before which may be a type; "" if it is unknown."""
    plain = name.removeprefix("void ").replace("(anonymous namespace)::", "").replace("<unnamed>::", "")
    # Arguments of templates have names of other libraries, but for the kernels of CUTLASS's generator.
    base = re.split(r"[(<]", plain, maxsplit=1)[0]
    base = plain if base.startswith("cutlass::Kernel") else base
    if base in functions or _TRITON_2.sub("", base) in functions:
        return "triton"
    return next((kind for kind, marks in KINDS.items() if marks.kernel and re.search(marks.kernel, base)), "")


_LIBRARY = re.compile("|".join(f"(?:{marks.library})" for marks in KINDS.values() if marks.library), re.IGNORECASE)


def is_known_library(path: str) -> bool:
    """Return whether a file has the name of a known library."""
    return _LIBRARY.match(path.rpartition("/")[2]) is not None


def library_means(paths: Iterable[str]) -> tuple[Used, ...]:
    """Return the known libraries among files, by name."""
    names = [path.rpartition("/")[2] for path in paths]
    found = {
        kind
        for kind, marks in KINDS.items()
        if marks.library and any(re.match(marks.library, name, re.IGNORECASE) for name in names)
    }
    return tuple(map(Used, sorted(found)))


def means_text(used: Sequence[Used]) -> str:
    """Return means in words: "3 kernels: 2 triton, 1 cublas; 1 library: openblas"."""
    kernels = [each for each in used if each.kernels is not None]
    libraries = [each.name for each in used if each.kernels is None]
    total = sum(each.kernels or 0 for each in kernels)
    parts = []
    if kernels:
        counts = ", ".join(f"{each.kernels} {each.name}" for each in kernels)
        parts.append(f"{total} {'kernel' if total == 1 else 'kernels'}: {counts}")
    if libraries:
        parts.append(f"{len(libraries)} {'library' if len(libraries) == 1 else 'libraries'}: {', '.join(libraries)}")
    return "; ".join(parts)


def rule_fault(rule: MeansRule, used: Sequence[Used], *, traced: bool) -> str:
    """Return the means by which a submission breaks a rule, and the place where it was seen; "" if it keeps it.

    A kind of kernels is required only of a submission whose kernels were `traced`.
    """
    for each in used:
        if each.name in rule.forbid:
            launched = f"a call launched {each.kernels} of its kernels"
            where = "its processes used the library" if each.kernels is None else launched
            return f"the task forbids {each.name}: {where}"
    names = {each.name for each in used}
    for name in rule.require:
        if name not in names and (KINDS[name].is_only_library or (traced and KINDS[name].has_kernels)):
            return f"the task requires {name}, but the submission used {means_text(used) or 'no known library'}"
    return ""
