"""The manual: what it shows works, what it lists is complete, and where it points there is something."""

import ast
import inspect
import json
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
import yaml
from msgspec import Struct

from hpc_board import scripting
from hpc_board import settings as config
from hpc_board.board import Board
from hpc_board.catalog import folders, new_task
from hpc_board.cli import exits
from hpc_board.cli.main import cli
from hpc_board.domain.run import RunState
from hpc_board.domain.submission import directives
from hpc_board.errors import BoardError
from hpc_board.harness.build import toolchain
from hpc_board.model.build_flags import flags_for
from hpc_board.model.gpu import Cluster, Device, Gpu
from hpc_board.model.limits import Limits
from hpc_board.model.lint import PROBES
from hpc_board.model.result import Verdict
from hpc_board.model.task import Language, Mode, Template
from hpc_board.report.run_words import verdict_text
from hpc_board.runs import job_folder
from hpc_board.schedulers import sections
from hpc_board.schedulers.slurm import RequestStyle
from hpc_board.schedulers.slurm import kind as slurm
from hpc_board.task_check import lint
from hpc_board.yaml_sections import Section
from tests.e2e.boards import RIGHT, BoardFiles, board_files
from tests.harness.evaluations import a_task
from tests.unit.recorded import REPOSITORY, call, recorded, result_of, timed_case
from tests.values import replace

DOCS = REPOSITORY / "docs"
PAGES = [REPOSITORY / "README.md", *sorted(DOCS.rglob("*.md"))]

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def text(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of a page in one language."""
    return [body for found, body in FENCE.findall(page) if found == language]


def rows(page: str) -> Iterator[list[str]]:
    """The cells of every table row of a page."""
    for line in page.splitlines():
        if line.startswith("|") and not line.startswith("|---"):
            yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def named_in_first_cells(page: str) -> set[str]:
    """Return the code in the first cells of rows."""
    return {word for row in rows(page) for word in re.findall(r"`([^`]+)`", row[0])}


def keys(struct: type[Struct]) -> list[str]:
    return [field.encode_name for field in msgspec.structs.fields(struct)]


# JSON


def test_the_page_on_json_is_what_the_code_says() -> None:
    page = runpy.run_path(str(REPOSITORY / "scripts" / "json_page.py"))
    assert text("json.md") == page["json_page"](), "make docs writes it anew"


def test_the_json_schema_is_what_the_code_says() -> None:
    made = runpy.run_path(str(REPOSITORY / "scripts" / "json_schema.py"))["json_schema"]()
    assert json.loads(text("schema.json")) == made, "make docs writes it anew"


def test_the_page_on_json_has_each_object_once_and_every_key_with_a_meaning() -> None:
    page = text("json.md")
    titles = re.findall(r"^### (.+)$", page, re.MULTILINE)
    assert sorted(titles) == sorted(set(titles))
    named = {link for row in rows(page) for cell in row for link in re.findall(r"\]\(#([a-z-]+)\)", cell)}
    assert {title.lower().replace(" ", "-") for title in titles} == named
    assert [row for row in rows(page) if not all(row)] == []


def test_the_table_of_keys_is_what_the_app_says() -> None:
    page = runpy.run_path(str(REPOSITORY / "scripts" / "keys_page.py"))
    assert text("app.md") == page["page_with_keys"](text("app.md")), "make docs writes it anew"


def test_the_tables_of_columns_are_what_the_code_says() -> None:
    page = runpy.run_path(str(REPOSITORY / "scripts" / "data_page.py"))
    assert text("data.md") == page["page_with_columns"](text("data.md")), "make docs writes them anew"


@pytest.mark.parametrize("snippet", blocks(text("data.md"), "python"))
def test_an_example_of_data_loads_an_export(snippet: str, tmp_path: Path) -> None:
    libraries = re.findall(r"^(?:import|from) (\w+)", snippet, re.MULTILINE)
    for name in ("pyarrow", *libraries):
        pytest.importorskip(name, reason=f"{name} is not installed")
    board = recorded(tmp_path)
    for verdict in (Verdict.PASS, Verdict.WRONG_VALUE, Verdict.PASS):
        board.add(result=result_of(verdict, timed_case()), score_s=1e-3 if verdict is Verdict.PASS else None)
    for what, *more in (("runs", "--with-code", "--with-output"), ("cases",), ("samples",), ("tasks",)):
        words = ("--format", "parquet", "--what", what, "-o", f"{tmp_path}/{what}.parquet", *more)
        done = call(board, "admin", "export", *words)
        assert done.exit_code == 0, done.output
    ran = subprocess.run([sys.executable, "-c", snippet], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout


# Settings


def test_the_tables_of_settings_are_what_the_code_says() -> None:
    page = runpy.run_path(str(REPOSITORY / "scripts" / "settings_page.py"))
    assert text("settings.md") == page["page_with_tables"](text("settings.md")), "make docs writes them anew"


def test_the_tables_of_settings_have_every_key_with_a_meaning() -> None:
    page = runpy.run_path(str(REPOSITORY / "scripts" / "settings_page.py"))
    found = {row[0]: row for row in rows(page["reference"]())}
    places = [vars(module).values() for module in (config, sections, slurm)]
    values = [value for place in places for value in place if isinstance(value, type)]
    structs = [value for value in values if issubclass(value, Section) and value is not Section]
    for key in (key for struct in structs for key in keys(struct)):
        assert all(found[f"`{key}`"]), key


def example_settings(folder: Path) -> Path:
    (folder / "tasks").mkdir()
    (folder / "job.sh.j2").write_text("")
    path = folder / "hpc-board.yaml"
    path.write_text(blocks(text("settings.md"), "yaml")[0])
    return path


def test_the_example_of_settings_can_be_read(tmp_path: Path) -> None:
    settings = config.load(example_settings(tmp_path), {})
    assert [gpu.name for gpu in settings.gpus] == ["H100", "A100", "CPU"]


def test_the_example_of_settings_has_every_key_that_is_taken(tmp_path: Path) -> None:
    example = yaml.safe_load(example_settings(tmp_path).read_text())
    assert set(keys(config.SettingsFile)) == {"service", "jobs", *example}
    # `service` excludes every other key, `jobs` clusters with pyslurm and local ones.
    cluster_keys = {key for cluster in example["clusters"].values() for key in cluster}
    assert set(keys(slurm.SlurmClusterSection)) == cluster_keys
    assert set(keys(slurm.SlurmGpuSection)) == set(example["gpus"]["H100"])
    assert set(keys(slurm.RequestSection)) == set(example["gpus"]["H100"]["request"])


@pytest.mark.parametrize("page", [REPOSITORY / "README.md", DOCS / "clusters.md"], ids=lambda page: page.name)
def test_the_shorter_settings_of_other_pages_can_be_read(tmp_path: Path, page: Path) -> None:
    path = tmp_path / "hpc-board.yaml"
    (settings,) = blocks(page.read_text(encoding="utf-8"), "yaml")
    path.write_text(settings)
    assert config.load(path, {}).gpus


def test_every_style_of_request_is_shown() -> None:
    shown = {word for word in named_in_first_cells(text("settings.md")) if word.startswith("{style: ")}
    assert {yaml.safe_load(word)["style"] for word in shown} == {str(style) for style in RequestStyle}


def test_every_variable_of_batch_script_templates_is_listed() -> None:
    listed = text("settings.md").partition("## Batch script templates")[2].partition("\n## ")[0]
    calls = [
        node for node in ast.walk(ast.parse(inspect.getsource(job_folder._rendered))) if isinstance(node, ast.Call)
    ]
    (render,) = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "render"]
    given = {str(keyword.arg) for keyword in render.keywords}
    assert named_in_first_cells(listed) == given


def test_the_commands_that_a_template_must_run_are_those_of_the_one_that_ships(tmp_path: Path) -> None:
    (commands,) = [block for block in blocks(text("settings.md"), "text") if "supervise" in block]
    own = tmp_path / "own.j2"
    own.write_text(commands)
    gpu = Gpu("CPU", Cluster("here", "local"), Device.CPU)
    wanted = {line.partition("  #")[0].strip() for line in script(gpu).splitlines()}
    shown = [line.partition("  #")[0].strip() for line in script(gpu, template=own).splitlines()]
    assert len(shown) == 2
    assert set(shown) <= wanted


def script(gpu: Gpu, template: Path | None = None) -> str:
    return job_folder.script(a_task(), replace(gpu, template=str(template) if template else None), Mode.TEST).text


# Tasks


def test_every_key_of_task_files_is_explained() -> None:
    explained = named_in_first_cells(text("tasks.md"))
    expected = {*keys(folders.TaskDocument)} - {"hpc_board"}
    expected |= {f"files[].{key}" for key in keys(folders.FileEntry)}
    expected |= {f"hpc_board.{key}" for key in keys(folders.OwnSection)}
    assert expected <= explained


def test_the_defaults_of_task_files_are_the_codes_own() -> None:
    shown = {row[0].strip("`"): row[1].strip("`") for row in rows(text("tasks.md")) if len(row) > 1}
    for field in msgspec.structs.fields(folders.TaskDocument):
        if field.required:
            assert shown[field.name] == "must be given"
        elif isinstance(field.default, int | str):
            assert shown[field.name] == str(field.default).lower()


def test_every_limit_is_listed_with_its_default_and_bounds() -> None:
    listed = {row[0].strip("`"): row[1:4] for row in rows(text("tasks.md")) if len(row) == 5}
    listed.pop("limit")
    expected = {
        limit.name: [*map(number, (getattr(Limits(), limit.name), limit.metadata["least"], limit.metadata["most"]))]
        for limit in fields(Limits)
    }
    assert listed == expected


def number(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)


def test_the_limits_of_the_example_are_valid() -> None:
    (example,) = [block for block in blocks(text("tasks.md"), "yaml") if block.startswith("hpc_board:\n  limits")]
    assert Limits.of_task(yaml.safe_load(example)["hpc_board"]["limits"]) != Limits()


def example_task(folder: Path) -> Path:
    """The folder of the task that the page shows whole."""
    target = folder / "saxpy_py"
    target.mkdir()
    (target / "task.yml").write_text(blocks(text("tasks.md"), "yaml")[0])
    (target / "reference.py").write_text(blocks(text("tasks.md"), "python")[0])
    return target


def test_the_task_that_the_page_shows_can_be_read(tmp_path: Path) -> None:
    task = folders.read_task(example_task(tmp_path))
    assert (task.name, task.harness, task.warnings) == ("saxpy_py", "isolated", ())


def test_the_settings_that_the_page_shows_bring_the_task_to_the_board(tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    example_task(tmp_path / "tasks")
    (settings,) = [block for block in blocks(text("tasks.md"), "yaml") if block.startswith("tasks:")]
    (tmp_path / "hpc-board.yaml").write_text(settings)
    board = Board.open(tmp_path / "hpc-board.yaml", {"HOME": str(tmp_path)})
    assert {"saxpy_py", "softmax_py"} <= {task.name for task in board.tasks.catalog().tasks}


# Authors


def test_the_files_of_a_new_task_are_those_on_the_page() -> None:
    section = text("authors.md").partition("## Start")[2].partition("\n## ")[0]
    assert named_in_first_cells(section) | {"template.cu", "template.hip"} == set(new_task.files([*Language]))


def test_the_findings_on_the_page_are_some_that_there_are() -> None:
    section = text("authors.md").partition("## Ask the judge")[2].partition("\n## ")[0]
    source = inspect.getsource(lint)
    for code in named_in_first_cells(section):
        kind, _, probe = code.partition("_")
        assert f'"{code}"' in source or (kind in ("accepts", "refuses") and probe in PROBES), code


# Results


@pytest.mark.parametrize("words", [Verdict, RunState, Mode])
def test_every_word_of_a_result_is_explained(words: type[Verdict | RunState | Mode]) -> None:
    assert {str(word) for word in words} <= named_in_first_cells(text("results.md"))


def test_states_and_verdicts_of_the_same_name_are_both_explained() -> None:
    page = text("results.md")
    verdicts = page.partition("## Verdicts")[2].partition("\n## ")[0]
    states = page.partition("## States of a run")[2].partition("\n## ")[0]
    assert named_in_first_cells(verdicts) == {str(verdict) for verdict in Verdict}
    assert named_in_first_cells(states) == {str(state) for state in RunState}


def test_the_table_of_verdicts_has_the_words_that_lists_print() -> None:
    table = rows(text("results.md").partition("## Verdicts")[2].partition("\n### ")[0])
    printed = {row[0].strip("`"): row[1] for row in table if row[0].startswith("`")}
    assert printed == {str(verdict): verdict_text(verdict) for verdict in Verdict}


@pytest.mark.parametrize("name", ["Run", "Comparison", "Task", "Runner", "Standing"])
def test_the_attributes_of_the_python_interface_are_those_of_the_page(name: str) -> None:
    table = text("scripts.md").split(f"\n| `{name}` | meaning |\n")[1].split("\n\n")[0]
    type_ = getattr(scripting, name)
    found = named_in_first_cells(table)
    assert found - {"passed"} == set(type_.__struct_fields__)
    assert all(hasattr(type_, each) for each in found)


def test_every_exit_code_is_explained() -> None:
    explained = {int(row[0]) for row in rows(text("scripts.md")) if row[0].isdigit()}
    used = {exits.DONE, exits.NOT_PASSED, exits.NO_VERDICT, exits.INTERRUPTED}
    used |= {error.exit_code for error in descendants(BoardError)}
    assert used <= explained


def descendants(error: type[BoardError]) -> Iterator[type[BoardError]]:
    yield error
    for child in error.__subclasses__():
        yield from descendants(child)


@pytest.fixture(scope="module")
def ranked(tmp_path_factory: pytest.TempPathFactory) -> tuple[BoardFiles, dict[str, Any]]:
    """A board on the embedded scheduler, and what `submit --json` printed for one ranked run on it."""
    files = board_files(tmp_path_factory.mktemp("manual"), slurm=False)
    printed = files.json("submit", files.kernel(RIGHT), "--mode", "ranked", "--wait")
    assert printed["runs"][0]["verdict"] == "pass", printed
    return files, printed


def test_every_file_of_a_job_folder_is_explained(ranked: tuple[BoardFiles, dict[str, Any]]) -> None:
    files, printed = ranked
    run = printed["runs"][0]
    folder = files.folder / "board" / "runs" / str(run["id"])
    names = {f"{path.name}/" if path.is_dir() else path.name for path in folder.iterdir()}
    section = text("results.md").partition("## The job folder")[2].partition("\n## ")[0]
    assert {name.replace(f"-{run['job']['id']}.", "-JOBID.") for name in names} == named_in_first_cells(section)


def test_every_entry_of_a_board_folder_is_explained(ranked: tuple[BoardFiles, dict[str, Any]]) -> None:
    files, _ = ranked
    shown = text("slurm.md").partition("    <board>/\n")[2].partition("\n\n")[0]
    explained = {line.split()[0].partition("/")[0].replace("<cluster>", "here") for line in shown.splitlines()}
    names = {path.name for path in (files.folder / "board").iterdir()}
    # The cache begins with the first compiled submission, checks exist while a client waits for them, and leave the
    # peaks of CPUs. Folders elsewhere are read only over SSH. Free GPUs and the size of arrays are kept only of Slurm,
    # and a pass over few runs takes too little time to be kept.
    others = {
        "cache",
        "checks",
        "cpu-peaks.json",
        "looked-here",
        "looked-here.watched",
        "free-here",
        "known-here",
        "scanned-here",
        "pruned-here",
    }
    assert {name for name in names if not name.startswith("board.db-")} | others == explained


# Languages


def test_the_first_lines_on_the_page_are_directives() -> None:
    section = text("languages.md").partition("## The first lines")[2].partition("\n## ")[0]
    found = directives(blocks(section, "python")[0])
    assert (found.leaderboard, found.gpus, found.options.qos) == ("softmax_py", ("H100", "A100"), "night")


def test_the_submission_on_the_page_is_the_template_that_it_names() -> None:
    (shown,) = blocks(text("languages.md"), "cuda")
    lines = (REPOSITORY / "tasks/vectoradd/template.cu").read_text().splitlines()
    assert shown.splitlines() == [line for line in lines if not line.startswith("/*")]


def test_the_table_of_templates_is_that_of_the_bundled_tasks() -> None:
    section = text("languages.md").partition("## Libraries and DSLs")[2].partition("\n## ")[0]
    shown = {row[0].split("`")[1]: (row[1].strip("`"), row[2]) for row in rows(section) if row[0] != "language"}
    assert list(shown) == [str(template) for template in Template]
    tasks = [folders.read_task(path.parent) for path in sorted((REPOSITORY / "tasks").glob("*/task.yml"))]
    for template, (suffix, named) in shown.items():
        assert suffix in Template(template).language.extensions
        having = {task.name for task in tasks if template in task.templates}
        assert having == ({task.name for task in tasks} if named == "all bundled tasks" else set(named.split(", ")))


def test_the_functions_on_the_page_are_those_of_the_header() -> None:
    (shown,) = blocks(text("languages.md"), "c")
    header = " ".join(toolchain.header_text().split())
    assert [each for each in shown.split("\n\n") if " ".join(each.split()) not in header] == []


def test_the_commands_on_the_page_are_the_beginnings_of_those_that_compile() -> None:
    section = text("languages.md").partition("## How it is compiled")[2].partition("\n## ")[0]
    shown = {row[0]: row[1].strip("`") for row in rows(section)}
    shown.pop("language")
    arches = {Language.CPP: ("g++", "native"), Language.CU: ("nvcc", "sm_90a"), Language.HIP: ("hipcc", "gfx942")}
    for language, (compiler, arch) in arches.items():
        tools = toolchain.Toolchain(language, compiler, arch, "", "")
        assert " ".join(toolchain.command(tools, (), "k")).startswith(shown.pop(f"`{language}`"))
    assert shown == {}


def test_every_flag_on_the_page_is_allowed_for_the_languages_that_it_names() -> None:
    section = text("tasks.md").partition("## Languages")[2].partition("\n## ")[0]
    found = [row for row in rows(section) if row[0] != "flag"]
    assert len(found) == 6
    for written, named in found:
        for flag in re.findall(r"`(-[^`]+)`", written):
            example = flag.replace("=N", "=64")
            languages = {str(language) for language in Language if flags_for(language, [example])}
            assert languages == ({"cpp", "cu", "hip"} if named == "all" else set(re.findall(r"`(\w+)`", named)))


# Links and commands


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        if "://" in target or re.fullmatch(r"(?:docs/)?pictures/[\w-]+\.svg", path):
            continue
        found = page.parent / path if path else page
        assert found.exists(), target
        if anchor:
            assert anchor in anchors(found.read_text(encoding="utf-8")), target


def anchors(page: str) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") for title in titles}


def test_the_manual_leads_to_every_page() -> None:
    linked = {(DOCS / target).resolve() for target in re.findall(r"\]\(([\w/.-]+\.md)", text("index.md"))}
    assert linked == {page.resolve() for page in DOCS.rglob("*.md")} - {(DOCS / "index.md").resolve()}


def commands(page: str) -> Iterator[str]:
    """The command lines of hpc-board that a page shows, in blocks of code and within the text."""
    code = [block for _, block in FENCE.findall(page)]
    prose = FENCE.sub("", page)
    code += re.findall(r"^    .*$", prose, re.MULTILINE)
    yield from re.findall(r"`(?:\*/5 \* \* \* \* )?(?:~/[\w./-]+/)?(hpc-board [^`]+)`", prose)
    for line in "\n".join(code).splitlines():
        found = re.match(r"\s*(?:\$ )?(hpc-board(?: .*)?)$", line)
        if found:
            yield found[1]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_that_is_shown_is_one(page: Path) -> None:
    for line in commands(page.read_text(encoding="utf-8")):
        words = shlex.split(re.split(" [|>] ", line)[0], comments=True)[1:]
        if len(words) == 1 and Path(words[0]).suffix == ".py":
            continue  # the app with that file, which has to be there
        try:
            parse(["1" if word in {"ID", "SUBMISSION"} else word for word in words])
        except click.UsageError as error:
            pytest.fail(f"{line}: {error.format_message()}")


def parse(words: list[str]) -> None:
    """Read a command line as `hpc-board` would, and run nothing."""
    # A command keeps the help option that it is first asked for: one without -h would then be in every later help.
    group = click.Context(cli, info_name="hpc-board", **cli.context_settings)
    _, rest, _ = cli.make_parser(group).parse_args(words)
    if rest:
        name, command, arguments = cli.resolve_command(group, rest)
        assert command is not None
        command.make_context(name, arguments, parent=group)


def test_a_command_that_is_none_would_be_noticed() -> None:
    for line in ("sbmit x", "submit", "submit x --dryrun", "run twelve"):
        with pytest.raises(click.UsageError):
            parse(line.split())
    found = list(
        commands("Say `hpc-board runs`.\n\n```console\n$ hpc-board list\n```\n\n    hpc-board gpus   # free\n")
    )
    assert found == ["hpc-board runs", "hpc-board list", "hpc-board gpus   # free"]
