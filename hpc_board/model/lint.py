"""Results of a task's lint: the judge's verdicts on right and on cheap answers.

These are facts, written by the harness; `findings.py` draws the conclusions.
"""

from dataclasses import dataclass

LINT_BYTES_MAX = 16 * 2**20
"""Size limit of a `lint.json` that is read."""

FORMATS = ("tf32", "float16", "bfloat16")
"""Number formats coarser than float32, each coarser than those before it."""


@dataclass(frozen=True)
class Probe:
    """An answer given to the judge: its description, and whether it is right.

    `acceptable_as` is the declaration that makes a wrong one right, "" if no declaration does.
    """

    title: str
    right: bool = False
    acceptable_as: str = ""


def _rounded() -> dict[str, Probe]:
    answers = {f"answer_{name}": Probe(f"the answer rounded to {name}", acceptable_as=name) for name in FORMATS}
    inputs = {f"inputs_{name}": Probe(f"the answer to inputs in {name}", acceptable_as=name) for name in FORMATS}
    return {**answers, **inputs}


INPUTS_MAX = 4
"""Number of inputs that are tried as answers."""

PROBES: dict[str, Probe] = {
    "reference": Probe("the reference's answer", right=True),
    "again": Probe("the same, computed again", right=True),
    "zeros": Probe("zeros"),
    "ones": Probe("ones"),
    "mean": Probe("its mean everywhere"),
    **{f"input_{n}": Probe(f"input {n} as it is", acceptable_as="input") for n in range(1, INPUTS_MAX + 1)},
    "other_seed": Probe("the answer to another seed"),
    **_rounded(),
    "one_element": Probe("one element off", acceptable_as="one_element"),
    "last_element": Probe("the last element off", acceptable_as="one_element"),
    "one_nan": Probe("one element NaN", acceptable_as="one_element"),
    "nan": Probe("NaN everywhere"),
    "infinity": Probe("infinity everywhere"),
    "dtype": Probe("another type of numbers"),
    "shape": Probe("another shape"),
}
"""Every probe by its name, in the order of execution."""


UNMADE = "unmade"


def accepted_formats(accepts: tuple[str, ...]) -> tuple[str, ...]:
    """Return all formats that a task accepts: a number format includes the finer ones."""
    coarsest = max((FORMATS.index(name) for name in accepts if name in FORMATS), default=-1)
    return (*FORMATS[: coarsest + 1], *(name for name in accepts if name not in FORMATS))


@dataclass(frozen=True)
class Probed:
    """The judge's verdict on one probe; `same`: it was the reference's own answer, bit by bit.

    The verdict is `UNMADE` if the probe does not apply to the answer.
    """

    probe: str
    verdict: str
    message: str
    same: bool


@dataclass(frozen=True)
class Behaviour:
    """The reference's behaviour on one case.

    `writes`: into its inputs; `aliases`: its answer lies in their memory; `repeats`: the same inputs give the same
    answer, bit by bit; `constant`: its answer is one number everywhere; `varies`: another seed gives another answer.
    """

    writes: bool
    aliases: bool
    repeats: bool
    constant: bool
    varies: bool


@dataclass(frozen=True)
class CheckedCase:
    """Lint results of one case.

    `failure` is the reason why the judge could not continue, `lost`: it is gone since. `repeatable`: a seed gives the
    same inputs again; `seeded`: another seed gives others. `margin` is the largest relative error of every element that
    passed, 1 if any did, and `roundoff` the relative error of rounding to the answer's own type; None if the answer has
    no floating-point numbers. `unfinished`: the time was over before the last probe.
    """

    phase: str
    index: int
    spec: str
    failure: str = ""
    lost: bool = False
    repeatable: bool = True
    seeded: bool = True
    behaviour: Behaviour | None = None
    probed: tuple[Probed, ...] = ()
    margin: float | None = None
    roundoff: float | None = None
    unfinished: bool = False

    @property
    def name(self) -> str:
        """Return the case's name for people: "benchmark 2"."""
        return f"{self.phase} {self.index + 1}"


@dataclass(frozen=True)
class LeftOut:
    """A case that was left out, and the reason."""

    phase: str
    index: int
    why: str


@dataclass(frozen=True)
class Lint:
    """All results of a task's lint; `message` is the reason if it found nothing out, else "".

    `of_machine`: this machine lacks a requirement, and the task is not to blame.
    """

    message: str = ""
    cases: tuple[CheckedCase, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    printed: str = ""
    of_machine: bool = False
