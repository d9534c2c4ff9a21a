"""Run the adversarial suite and the mutations of the judge on this machine, and print both as tables.

The exit code is 1 if a submission ends otherwise than it should, or a defence makes no difference.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hpc_board.harness.confine.sandbox import reaches
from tests.harness.adversarial.attack import Outcome, level, outcome
from tests.harness.adversarial.mutations import MUTATIONS
from tests.harness.adversarial.suite import SUITE


def main() -> int:
    """Print both tables, and return 1 if something is not as it should be."""
    print(f"Isolation of this node: {level()}\n")
    faults = [*_suite(), *_mutations()]
    for fault in faults:
        print(f"FAULT: {fault}", file=sys.stderr)
    return 1 if faults else 0


def _suite() -> list[str]:
    faults = []
    _row("cheat", "mechanism", "task", "mode", "expected", "got", "needs")
    _row(*["---"] * 7)
    for cheat in SUITE:
        expected = " or ".join(cheat.verdicts) + ("; nothing reached" if cheat.tries else "")
        got = "left out: this node does not reach the isolation that it takes"
        if reaches(level(), cheat.isolation):
            found = outcome(cheat)
            got = _told(found) + (_share(found) if cheat.pays else "")
            if found.result.verdict not in cheat.verdicts or found.effects:
                faults.append(f"{cheat.id}: {got}")
        _row(cheat.id, cheat.mechanism, cheat.task, cheat.mode, expected, got, cheat.isolation)
    return faults


def _mutations() -> list[str]:
    faults = []
    print()
    _row("defence", "cheat", "with it", "without it")
    _row(*["---"] * 4)
    for mutation in MUTATIONS:
        if not reaches(level(), mutation.submission.isolation):
            _row(mutation.defence, mutation.cheat, "left out", "left out")
            continue
        with_it, without_it = mutation.with_it(), mutation.without_it()
        told = [_told(with_it), _told(without_it)]
        if told[0] == told[1]:
            told = [f"{_told(each)}; reference {each.reference_ns / 1e6:.1f} ms" for each in (with_it, without_it)]
        _row(mutation.defence, mutation.cheat, *told)
        if not mutation.gains(without_it, with_it):
            faults.append(f"{mutation.defence}: {mutation.cheat} does not gain by its absence")
    return faults


def _told(found: Outcome) -> str:
    """The verdict, and the first effect if there is one."""
    return "; ".join([str(found.result.verdict), *found.effects[:1]])


def _share(found: Outcome) -> str:
    """Return the time that counts as a share of the reference's in the same run, where both were timed."""
    return f"; {found.score_ns / found.reference_ns:.2f} of the reference's time" if found.reference_ns else ""


def _row(*cells: str) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
