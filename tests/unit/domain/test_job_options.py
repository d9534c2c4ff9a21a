"""Options of a submission's jobs: their values, the order in which they apply, and the permission of the settings."""

from typing import get_args

import pytest

from hpc_board.domain.job_options import (
    NO_OPTIONS,
    OPTION_NAMES,
    JobOptions,
    OptionRules,
    check,
    completed,
    fault,
    joined_constraints,
    of_values,
    parsed,
)
from hpc_board.domain.submission import DirectiveError, directives
from hpc_board.errors import InputError, Refused
from hpc_board.model.task import Mode
from hpc_board.settings import OptionName

EVERY = JobOptions("a", "q", "r1,r2", "ib&big", "00:10:00", "n[1-3]", "n4", ("--comment=night", "--contiguous"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(
            (name, value)
            for name in OPTION_NAMES
            for value in ("", "a b", "a\nb", "a;b", "$(id)", "`id`", 'a"b', "a'b")
        ),
        *((name, value) for name in OPTION_NAMES for value in ("-x", "--uid=root", "a#b", "a\\b", "é", "a" * 256)),
        ("exclude", "/etc/passwd"),
        ("nodelist", "./nodes"),
        ("constraint", "(a|b)"),
        ("constraint", "[a*2]"),
        ("constraint", "a&"),
        ("time", "0"),
        ("time", "soon"),
        ("sbatch", "comment=x"),
        ("sbatch", "--comment=a b"),
        ("sbatch", "--comment=a --uid=root"),
        ("sbatch", "--comment=-x"),
        *(
            ("sbatch", f"--{option}=x")
            for option in (
                *("uid", "gid", "output", "error", "input", "chdir", "export", "export-file", "wrap", "array", "bbf"),
                *("partition", "account", "qos", "job-name", "get-user-env", "clusters", "mail-user", "comm", "outp"),
                *("requeue", "propagate", "container", "reboot", "priority", "gres", "nodes", "hold", "signal"),
            )
        ),
    ],
)
def test_a_value_that_could_be_more_than_one_value_is_refused(name: str, value: str) -> None:
    assert fault(name, value)
    given = JobOptions(sbatch=(value,)) if name == "sbatch" else of_values({name: value})
    if value:
        with pytest.raises(InputError, match=r", in the command\."):
            check(given, "the command")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("kernel", "(", '--kernel: invalid regular expression "("'),
        ("kernel", "(?a)(?u)x", '--kernel: invalid regular expression "(?a)(?u)x": '),
        ("kernel", "a{99999999999}", '--kernel: invalid regular expression "a{99999999999}": the repetition number'),
        ("kernel", "a\nb", "--kernel: expected printable ASCII characters"),
        ("kernel", "é", "--kernel: expected printable ASCII characters"),
        ("kernel", "a" * 256, "--kernel is too long: 256 characters (limit 255)"),
        ("case", "0", "--case: expected the number of a case, from 1"),
        ("case", "-1", "--case: expected the number of a case, from 1"),
        ("effort", "0", "--effort: expected quick, normal or a percentage up to 100"),
        ("effort", "101", "--effort: expected quick, normal or a percentage up to 100"),
        ("stop-if-slower", "no", "--stop-if-slower: expected yes"),
        ("set", "ful", 'unknown set "ful". Did you mean "full"? Sets: basic, detailed, full, roofline'),
    ],
)
def test_a_choice_that_cannot_be_used_says_why(name: str, value: str, words: str) -> None:
    assert words in fault(name, value)


def test_the_choices_of_a_mode_are_permitted_everywhere_and_stay_in_their_mode() -> None:
    chosen = JobOptions(qos="q", kernel="^softmax|a b$", case="2", set="basic")
    check(chosen, "the command")
    assert parsed(chosen.text) == parsed(chosen.brief) == chosen
    assert chosen.over(JobOptions(kernel="other")) == chosen
    assert chosen.in_mode(Mode.PROFILE) == chosen
    assert chosen.in_mode(Mode.TEST) == JobOptions(qos="q", case="2")
    choices = JobOptions(kernel="^softmax|a b$", case="2", set="basic")
    assert OptionRules(("time",)).effective(choices, NO_OPTIONS, "k.py") == choices
    with pytest.raises(DirectiveError):
        directives("#!HPCBOARD kernel softmax\n")


def test_the_choices_of_a_benchmark_are_read_as_they_are_written() -> None:
    chosen = JobOptions(case="2", effort="2.5", stop_if_slower="yes")
    check(chosen, "the command")
    assert chosen.words == ("--case=2", "--effort=2.5", "--stop-if-slower")
    assert parsed(chosen.text) == parsed(chosen.brief) == chosen
    assert parsed("--stop-if-slower --effort quick") == JobOptions(effort="quick", stop_if_slower="yes")
    assert chosen.in_mode(Mode.BENCHMARK) == chosen
    assert chosen.in_mode(Mode.TEST) == JobOptions(case="2")
    assert chosen.in_mode(Mode.RANKED) == NO_OPTIONS


def test_usual_values_are_taken() -> None:
    extras = JobOptions(sbatch=("--begin=now+1hour", "--nice=100", "--mail-type=END,FAIL", "--licenses=a@b:2"))
    for usual in (EVERY, extras):
        check(usual, "the command")
        assert parsed(usual.text) == usual


def test_the_command_comes_first_then_the_header() -> None:
    command = JobOptions(account="command", sbatch=("--comment=command",))
    header = JobOptions("header", "header", sbatch=("--comment=header", "--contiguous"))
    found = OptionRules().effective(command, header, "k.py")
    assert found == JobOptions("command", "header", sbatch=("--comment=command", "--contiguous"))


@pytest.mark.parametrize(
    ("command", "header", "origin"),
    [(JobOptions(qos="q"), NO_OPTIONS, "the command"), (NO_OPTIONS, JobOptions(qos="q"), "the header of k.py")],
)
def test_an_option_that_the_settings_do_not_permit_is_named_with_its_origin(
    command: JobOptions, header: JobOptions, origin: str
) -> None:
    with pytest.raises(Refused) as refusal:
        OptionRules(("time", "account")).effective(command, header, "k.py")
    assert "--qos" in refusal.value.message
    assert origin in refusal.value.message
    assert "`submit.options` in its settings permits time, account." in refusal.value.message


def test_the_text_of_options_is_read_again() -> None:
    assert parsed(EVERY.text) == EVERY
    assert parsed("--account a --sbatch --contiguous") == JobOptions("a", sbatch=("--contiguous",))
    assert parsed("account=a time=3") == JobOptions("a", time="3")
    assert parsed(EVERY.brief) == EVERY
    assert parsed("") == NO_OPTIONS


@pytest.mark.parametrize("text", ["account a", "--acount=a", "--account", "--account=", "'", "--uid=0"])
def test_a_text_with_something_else_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        parsed(text)


def test_a_header_has_options() -> None:
    found = directives(
        "#!POPCORN leaderboard x\n#!HPCBOARD qos night\n#!HPCBOARD sbatch --nice\n#!HPCBOARD sbatch --tmp=1\n"
    )
    assert found.options == JobOptions(qos="night", sbatch=("--nice", "--tmp=1"))


@pytest.mark.parametrize("line", ["qos", "qos a b", "qos a\n#!HPCBOARD qos b", "sbatch --uid=root", "time never"])
def test_a_header_with_an_invalid_option_is_refused(line: str) -> None:
    with pytest.raises(DirectiveError, match="line "):
        directives(f"#!HPCBOARD {line}\n")


def test_constraints_hold_together() -> None:
    assert joined_constraints(["a|b", "", "c", "c"]) == "(a|b)&(c)"
    assert joined_constraints(["", "a"]) == "a"
    assert not joined_constraints([""])


def test_the_settings_name_every_option_of_a_submission() -> None:
    assert get_args(OptionName) == OPTION_NAMES


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("q", "qos="),
        ("--q", "--qos="),
        ("time=3 q", "time=3 qos="),
        ("time=3 ", None),
        ("acc", None),
        ("sbatch=--com", "sbatch=--comment"),
        ("qos=", None),
    ],
)
def test_the_last_word_is_completed_to_a_permitted_option(text: str, found: str | None) -> None:
    assert completed(text, ("qos", "time", "sbatch")) == found
