"""Options of a submission's jobs: the names that users may set, their values, and the order in which they apply."""

import re
import shlex
from collections.abc import Mapping, Sequence

import msgspec

from hpc_board.errors import InputError, Refused
from hpc_board.model.names import suggestion
from hpc_board.model.sanitizer import CPU_TOOL, CUDA_TOOLS, tools_in
from hpc_board.model.task import Mode
from hpc_board.model.text import one_line

TIME_WORDS = 'a time up to a year as "MM", "MM:SS", "HH:MM:SS", "D-HH", "D-HH:MM" or "D-HH:MM:SS"'
SBATCH_OPTIONS_MAX = 20

SBATCH_NAMES = (
    *("acctg-freq", "begin", "comment", "contiguous", "core-spec", "cores-per-socket", "deadline", "delay-boot"),
    *("dependency", "distribution", "gres-flags", "hint", "licenses", "mail-type", "mem-bind", "mincpus", "nice"),
    *("power", "prefer", "sockets-per-node", "spread-job", "switches", "thread-spec", "threads-per-core", "time-min"),
    *("tmp", "use-min-nodes", "wckey"),
)
"""The options of sbatch that `--sbatch` takes.

No other option is taken: one could name a file, another user, another environment or the job's output, or change a
value on which hpc-board depends.
"""

_ACCOUNT = r"[A-Za-z0-9_][A-Za-z0-9_.@+-]*"
_SYNTAX = {
    "account": (_ACCOUNT, "a name of letters, digits and _ . @ + -"),
    "qos": (_ACCOUNT, "a name of letters, digits and _ . @ + -"),
    "reservation": (rf"{_ACCOUNT}(?:,{_ACCOUNT})*", "a name of letters, digits and _ . @ + -, or several with commas"),
    # Without parentheses, which Slurm does not nest: a GPU's own constraint is joined with this one.
    "constraint": (r"[A-Za-z0-9_][A-Za-z0-9_.:=+-]*(?:[&|,][A-Za-z0-9_][A-Za-z0-9_.:=+-]*)*", "features with & | ,"),
    # Without a slash: sbatch would read the nodes from a file of this name.
    "exclude": (r"[A-Za-z0-9_][A-Za-z0-9_.,\[\]-]*", "names of nodes such as n1,n[3-5]"),
    "nodelist": (r"[A-Za-z0-9_][A-Za-z0-9_.,\[\]-]*", "names of nodes such as n1,n[3-5]"),
    "retries": (r"[0-9]|10", "a whole number from 0 to 10"),
    "max-running": (r"[1-9][0-9]{0,2}|1000", "a whole number from 1 to 1000"),
    "case": (r"[1-9][0-9]{0,4}", "the number of a case, from 1"),
    "effort": (r"quick|normal|100|(?!0(?:\.0)?$)[1-9]?[0-9](?:\.[0-9])?", "quick, normal or a percentage up to 100"),
    "stop-if-slower": ("yes", "yes"),
}
_EXTRA = r"(?a)--(?P<name>[a-z][a-z-]*)(?:=(?P<value>[A-Za-z0-9_+][A-Za-z0-9_.,@:=+-]*))?"
_CHARACTERS_MAX = 255

VALUE_NAMES = (
    *("account", "qos", "reservation", "constraint", "time", "exclude", "nodelist"),
    *("retries", "max-running"),
)
"""The names of the options that have one value."""

OPTION_NAMES = (*VALUE_NAMES, "sbatch")
"""The names of all options, as in the command line, in a file's header and in the settings."""

CHOICES: Mapping[Mode, tuple[str, ...]] = {
    Mode.TEST: ("case",),
    Mode.BENCHMARK: ("case", "effort", "stop-if-slower"),
    Mode.PROFILE: ("kernel", "case", "set"),
    Mode.SANITIZE: ("tool",),
}
"""The options of some modes, which the harness reads: every board permits them, and only a command sets them."""

FLAGS = ("stop-if-slower",)
"""The options whose only value is `yes`, which is omitted."""

CHOICE_NAMES = tuple(dict.fromkeys(name for names in CHOICES.values() for name in names))

NCU_SETS = ("basic", "detailed", "full", "roofline")
"""The sets of sections of Nsight Compute from which `set` chooses."""

_TOOLS = (*CUDA_TOOLS, CPU_TOOL)


class JobOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """Options of a job; an empty one leaves the value of the settings. `time` has one of Slurm's formats.

    `retries` and `max_running`, the option max-running for the tasks of a job array, are numbers; `sbatch` has further
    options in the form "--comment=night". The last ones are those of `CHOICES`: a profile's kernels, as a regular
    expression, the only case of a test, a benchmark or a profile, counted from 1, a profile's set of counters, and the
    tools of mode sanitize; the width of the interval at which a benchmark ends, "quick", "normal" or a percentage, and
    "yes" for one that stops as soon as it is slower than the user's best run.
    """

    account: str = ""
    qos: str = ""
    reservation: str = ""
    constraint: str = ""
    time: str = ""
    exclude: str = ""
    nodelist: str = ""
    sbatch: tuple[str, ...] = ()
    retries: str = ""
    max_running: str = ""
    kernel: str = ""
    case: str = ""
    set: str = ""
    tool: str = ""
    effort: str = ""
    stop_if_slower: str = ""

    @property
    def plain(self) -> dict[str, str]:
        """Return the options with one value that are set, by their names in the command line."""
        fields = msgspec.structs.asdict(self)
        return {name.replace("_", "-"): value for name, value in fields.items() if value and name != "sbatch"}

    @property
    def given(self) -> tuple[str, ...]:
        """Return the names of the options that are set."""
        return (*self.plain, *(("sbatch",) if self.sbatch else ()))

    @property
    def choices(self) -> dict[str, str]:
        """Return the options of `CHOICES` that are set, by their names."""
        return {name: value for name, value in self.plain.items() if name in CHOICE_NAMES}

    @property
    def words(self) -> tuple[str, ...]:
        """Return the options as arguments of `submit`."""
        plain = (f"--{name}" if name in FLAGS else f"--{name}={value}" for name, value in self.plain.items())
        return (*plain, *(f"--sbatch={extra}" for extra in self.sbatch))

    @property
    def text(self) -> str:
        """Return the options as one line of text, which `parsed` reads."""
        return shlex.join(self.words)

    @property
    def brief(self) -> str:
        """Return the options as a short text without dashes, which `parsed` reads too."""
        return shlex.join(word.removeprefix("--") for word in self.words)

    def over(self, lower: "JobOptions") -> "JobOptions":
        """Return these options, and those of `lower` that they leave open; options of sbatch are joined by name."""
        extras = {extra.partition("=")[0]: extra for extra in (*lower.sbatch, *self.sbatch)}
        return of_values(lower.plain | self.plain, tuple(extras.values()))

    def in_mode(self, mode: Mode) -> "JobOptions":
        """Return these options without those of `CHOICES` that the mode does not have."""
        left_out = {name for name in CHOICE_NAMES if name not in CHOICES.get(mode, ())}
        return of_values({name: value for name, value in self.plain.items() if name not in left_out}, self.sbatch)


NO_OPTIONS = JobOptions()


def of_values(plain: Mapping[str, str], sbatch: Sequence[str] = ()) -> JobOptions:
    """Return the options with these values by their names in the command line."""
    return JobOptions(**{name.replace("-", "_"): value for name, value in plain.items()}, sbatch=tuple(sbatch))


class OptionRules(msgspec.Struct, frozen=True):
    """The options that the settings permit; `setting` is the key that says so, with the reason for the value."""

    names: tuple[str, ...] = OPTION_NAMES
    setting: str = "submit.options"

    def check(self, options: JobOptions, origin: str) -> None:
        """Require that options, which come from `origin`, are valid and permitted.

        Raises:
            InputError: a value is invalid.
            Refused: the settings do not permit an option.
        """
        check(options, origin)
        for name in options.given:
            if name not in (*self.names, *CHOICE_NAMES):
                permitted = ", ".join(self.names) or "none"
                raise Refused(
                    f"the option --{name} in {origin} is not permitted on this board: `{self.setting}` in its settings "
                    f"permits {permitted}.",
                    hint="Omit it, or ask the board's admin.",
                )

    def effective(self, command: JobOptions, header: JobOptions, file_name: str) -> JobOptions:
        """Return the options that apply: those of the file's header, and over them those of the command.

        Raises:
            InputError: a value is invalid.
            Refused: the settings do not permit an option.
        """
        self.check(header, f"the header of {one_line(file_name, 200)}")
        self.check(command, "the command")
        found = command.over(header)
        if len(found.sbatch) > SBATCH_OPTIONS_MAX:
            raise InputError(f"too many sbatch options: {len(found.sbatch)} (limit {SBATCH_OPTIONS_MAX}).")
        return found


def fault(name: str, value: str) -> str:
    """Return the fault of an option's value; empty without one."""
    if name not in (*OPTION_NAMES, *CHOICE_NAMES):
        return f"unknown job option {one_line(name, 80)}.{suggestion(name, OPTION_NAMES)}"
    shown = one_line(value, 80)
    if not value:
        return f"--{name} needs a value"
    if len(value) > _CHARACTERS_MAX:
        return f"--{name} is too long: {len(value)} characters (limit {_CHARACTERS_MAX})"
    if name == "time":
        try:
            time_limit_seconds(value)
        except ValueError as error:
            return f"--time: {error}"
        return ""
    if name == "sbatch":
        return _extra_fault(value)
    if name == "kernel":
        return _kernel_fault(value)
    if name == "set":
        sets = f"{suggestion(value, NCU_SETS)} Sets: {', '.join(NCU_SETS)}"
        return "" if value in NCU_SETS else f'--set: unknown set "{shown}".{sets}'
    if name == "tool":
        unknown = [each for each in tools_in(value) if each not in _TOOLS]
        tools = f"{suggestion(unknown[0], _TOOLS)} Tools: {', '.join(_TOOLS)}" if unknown else ""
        return f'--tool: unknown tool "{one_line(unknown[0], 80)}".{tools}' if unknown else ""
    pattern, words = _SYNTAX[name]
    return "" if re.fullmatch(pattern, value, re.ASCII) else f'--{name}: expected {words}, found "{shown}"'


def _kernel_fault(pattern: str) -> str:
    if not re.fullmatch(r"[ -~]+", pattern):
        return f'--kernel: expected printable ASCII characters, found "{one_line(pattern, 80)}"'
    try:
        re.compile(pattern)
    except (re.error, ValueError, OverflowError) as error:
        return f'--kernel: invalid regular expression "{one_line(pattern, 80)}": {error}'
    return ""


def _extra_fault(extra: str) -> str:
    match = re.fullmatch(_EXTRA, extra)
    if match is None:
        words = "an option such as --comment=night, without spaces and quotes"
        return f'--sbatch: expected {words}, found "{one_line(extra, 80)}"'
    name = match["name"]
    if name in OPTION_NAMES:
        return f"--sbatch: use the option --{name} instead"
    if name not in SBATCH_NAMES:
        return f"--sbatch: --{name} is not supported; supported: {', '.join(SBATCH_NAMES)}"
    return ""


def check(options: JobOptions, origin: str) -> None:
    """Require that each value of `options`, which come from `origin`, is valid.

    Raises:
        InputError: a value is invalid.
    """
    for name, value in (*options.plain.items(), *(("sbatch", extra) for extra in options.sbatch)):
        wrong = fault(name, value)
        if wrong:
            raise InputError(f"{wrong}, in {origin}.", hint="Correct the value, or omit the option.")


def completed(text: str, names: Sequence[str]) -> str | None:
    """Return `text` with its last word completed to one of the options `names`; None if none begins with it."""
    head, space, word = text.rpartition(" ")
    dashes = "--" if word.startswith("--") else ""
    begun = word.removeprefix(dashes)
    known = [f"{dashes}{name}=" for name in names]
    if "sbatch" in names and begun.startswith("sbatch=-"):
        known = [f"{dashes}sbatch=--{name}" for name in SBATCH_NAMES]
    found = next((each for each in known if each.startswith(word) and each != word), None) if begun else None
    return None if found is None else head + space + found


def parsed(text: str) -> JobOptions:
    """Parse options as `submit` has them, "--account=kernels --sbatch=--comment=night"; the first dashes may be absent.

    Raises:
        InputError: the text has something else, or an option without a value.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError(f'unterminated quote in "{one_line(text, 80)}".') from error
    plain: dict[str, str] = {}
    extras: list[str] = []
    left = iter(words)
    for word in left:
        name, equals, value = word.removeprefix("--").partition("=")
        if name not in (*OPTION_NAMES, *CHOICE_NAMES) or not (equals or word.startswith("--") or name in FLAGS):
            raise InputError(
                f'unknown job option "{one_line(word, 80)}".{suggestion(name, OPTION_NAMES)}',
                hint=f"Options: {', '.join(f'--{each}' for each in OPTION_NAMES)}.",
            )
        value = value if equals else "yes" if name in FLAGS else next(left, "")
        if not value:
            raise InputError(f"--{name} needs a value.", hint="For example --account=kernels --time=00:10:00.")
        if name == "sbatch":
            extras.append(value)
        else:
            plain[name] = value
    return of_values(plain, extras)


def joined_constraints(constraints: Sequence[str]) -> str:
    """Return a constraint that holds where all of these hold; each is named once."""
    different = [*dict.fromkeys(filter(None, constraints))]
    return "&".join(f"({each})" for each in different) if len(different) > 1 else "".join(different)


def time_limit_seconds(text: str) -> int:
    """Convert Slurm's "MM", "MM:SS", "HH:MM:SS", "D-HH", "D-HH:MM" or "D-HH:MM:SS" to seconds.

    Raises:
        ValueError: `text` is none of these, or no time at all.
    """
    match = re.fullmatch(r"(?:(\d{1,4})-)?(\d{1,6})(?::(\d{1,6}))?(?::(\d{1,6}))?", text, re.ASCII)
    if match is None:
        raise ValueError(f'expected {TIME_WORDS}, found "{one_line(text, 80)}"')
    days, first, second, third = (None if group is None else int(group) for group in match.groups())
    if days is None and third is None:
        hours, minutes, seconds = 0, first, second
    else:
        hours, minutes, seconds = first or 0, second, third
    total = (days or 0) * 86_400 + hours * 3600 + (minutes or 0) * 60 + (seconds or 0)
    if not 0 < total <= 366 * 86_400:
        raise ValueError(f'expected {TIME_WORDS}, found "{one_line(text, 80)}"')
    return total
