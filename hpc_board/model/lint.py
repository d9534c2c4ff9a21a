"""Results of a task's lint: the judge's verdicts on right and on bogus answers, and on the task's own submissions.

These are facts, written by the harness; `task_check/lint.py` draws the conclusions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

LINT_BYTES_MAX = 16 * 2**20
"""Size limit of a `lint.json` that is read."""


@dataclass(frozen=True)
class Probe:
    """An answer given to the judge: its description, and the advice to an author whose check judges it wrongly.

    It is `right`, or wrong, unless the task declares one of `accepted_as`.
    """

    title: str
    advice: str
    right: bool = False
    accepted_as: tuple[str, ...] = ()

    def expected(self, accepts: Sequence[str]) -> str:
        """Return "pass", "refused", or "any", for a task with these declarations."""
        if not set(self.accepted_as).isdisjoint(accepts):
            return "any"
        return "pass" if self.right else "refused"


_RIGHT = "Compare with ref_kernel, or loosen the tolerance until honest float32 passes with room to spare."
_INPUT = "Draw inputs that are not close to the answer, or declare hpc_board.accepts: [input]."
_FORMAT = "Tighten the tolerance, or declare the coarsest format that may pass: hpc_board.accepts: [{}]."
_ULP = (
    "Loosen the tolerance: a kernel that rounds in another order than the reference differs as much. Scale it by the "
    "source of an element's error. Where every correct kernel gives the same bits, declare hpc_board.accepts: [exact]."
)

INPUTS_MAX = 4
"""Number of inputs that are tried as answers."""

SECRET_SEEDS = 3
"""Number of secret seeds of each case."""

MARGIN_MAX = 1024
"""The largest margin that is looked for."""

INPUTS_ULP = "inputs_ulp"
"""The probe whose inputs, or else whose answer, are moved by one unit in the last place."""

SUBMISSION = "submission"
"""The name of the answer of a template or a milestone, in place of a probe's."""

PROBES: dict[str, Probe] = {
    "reference": Probe("the reference's answer", _RIGHT, right=True),
    "again": Probe("the same, computed again", _RIGHT, right=True),
    INPUTS_ULP: Probe("the answer to inputs 1 ulp off", _ULP, right=True, accepted_as=("exact",)),
    "zeros": Probe(
        "zeros",
        "Make the tolerance follow the size of each expected element: an absolute one passes small values.",
    ),
    "mean": Probe(
        "its mean everywhere",
        "Make the tolerance follow each element, not the largest one, or draw inputs that vary more.",
    ),
    **{f"input_{n}": Probe(f"input {n} as it is", _INPUT, accepted_as=("input",)) for n in range(1, INPUTS_MAX + 1)},
    "inputs_tf32": Probe("the answer to inputs in tf32", _FORMAT.format("tf32"), accepted_as=("tf32", "float16")),
    "inputs_float16": Probe("the answer to inputs in float16", _FORMAT.format("float16"), accepted_as=("float16",)),
    "one_element": Probe(
        "one element off",
        "Compare every element of every part, including the last ones, each with a tolerance that is smaller than the "
        "element. A check that tolerates a few wrong elements must declare it: hpc_board.accepts: [one_element].",
        accepted_as=("one_element",),
    ),
    "nan": Probe("NaN everywhere", "Write comparisons so that NaN is wrong: `not (difference <= tolerance)`."),
}
"""Every probe by its name, in the order of execution."""

UNMADE = "unmade"


@dataclass(frozen=True)
class Probed:
    """The judge's verdict on one probe; `same`: it was the reference's own answer, bit by bit.

    The verdict is `UNMADE` if the probe does not apply to the answer. `margin` is the largest power of two by which the
    answer's differences from the reference's can be multiplied so that it still passes, the least of all `seeds`; None
    if it was not looked for or the two are the same.
    """

    probe: str
    verdict: str
    message: str
    same: bool
    margin: int | None = None
    seeds: int = 1


@dataclass(frozen=True)
class CheckedCase:
    """Lint results of one case.

    `failure` is the reason why the judge could not continue, `lost`: a process is gone since. `repeatable`: a seed
    gives the same inputs again; `seeded`: another seed gives others; `steady`: those have the same shapes, and
    `one_form`: the right answers to them have the same form. `left_out` is the reason why probes are missing.
    `hidden` is the number of a hidden case, from 1, and 0 for a public one.
    """

    phase: str
    index: int
    spec: str
    failure: str = ""
    lost: bool = False
    repeatable: bool = True
    seeded: bool = True
    steady: bool = True
    one_form: bool = True
    probed: tuple[Probed, ...] = ()
    left_out: str = ""
    hidden: int = 0

    @property
    def name(self) -> str:
        """Return the case's name for people: "benchmark 2", "hidden test 1"."""
        return f"hidden {self.phase} {self.hidden}" if self.hidden else f"{self.phase} {self.index + 1}"


@dataclass(frozen=True)
class Lint:
    """All results of a task's lint, or of one of its submissions; `message` says why it found nothing out, else "".

    `verdict` is that of a submission that cannot be called. `cases` are those that were started, `left_out` those that
    were not. `of_machine`: this machine lacks a requirement, and the task is not to blame. `broken_rule` names the
    means by which a submission breaks the task's rule.
    """

    message: str = ""
    verdict: str = ""
    cases: tuple[CheckedCase, ...] = ()
    left_out: tuple[CheckedCase, ...] = ()
    printed: str = ""
    of_machine: bool = False
    broken_rule: str = ""


@dataclass(frozen=True)
class CheckedSubmission:
    """A template or a milestone of a task by its name, and its results; `left_out` is the reason if there are none."""

    name: str
    lint: Lint
    left_out: str = ""
