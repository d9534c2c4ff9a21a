"""The files around the code: what runs in CI, what installs, and what a release says of itself."""

import json
import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.specifiers import SpecifierSet

from hpc_board import __version__
from tests.unit.recorded import REPOSITORY

WORKFLOWS = [".github/workflows/ci.yml", ".gitlab-ci.yml"]


def parsed(name: str) -> object:
    return yaml.safe_load((REPOSITORY / name).read_text())


def required(extras: set[str]) -> dict[str, str]:
    """Return the installed release of every distribution that the product and `extras` need, directly or not."""
    found: dict[str, str] = {}
    waiting = [("hpc-board", extras)]
    while waiting:
        name, wanted = waiting.pop()
        for line in metadata.requires(name) or ():
            other, extra = re.match(r"[\w.-]+", line), re.search(r"extra == ['\"]([\w-]+)['\"]", line)
            if other is None or (extra and extra[1] not in wanted):
                continue
            key = re.sub(r"[-_.]+", "-", other[0]).lower()
            try:
                release = metadata.version(key).partition("+")[0]
            except metadata.PackageNotFoundError:
                continue  # Another Python or system needs it.
            if key not in found:
                found[key] = release
                waiting.append((key, set(re.findall(r"\[([\w,-]+)\]", line)[0].split(",")) if "[" in line else set()))
    return found


def test_the_constraints_name_the_release_of_every_dependency() -> None:
    lines = [line for line in (REPOSITORY / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    pinned = {re.sub(r"[-_.]+", "-", name).lower(): release for name, _, release in (x.partition("==") for x in lines)}
    needed = required({"dev", "torch"})
    assert {"click", "msgspec", "textual", "torch", "mdurl", "pluggy"} <= set(needed)
    # The environment itself brings the installers.
    installed = {name: release for name, release in needed.items() if name not in ("pip", "setuptools")}
    assert {name: release for name, release in installed.items() if pinned.get(name) != release} == {}


def test_every_constraint_can_be_installed_on_the_oldest_python_that_distributions_have() -> None:
    # Debian 12 has 3.11.2.
    oldest = "3.11.2"
    needed = {name: str(metadata.metadata(name)["Requires-Python"] or "") for name in required({"dev", "torch"})}
    assert {name: wanted for name, wanted in needed.items() if not SpecifierSet(wanted).contains(oldest)} == {}


@pytest.mark.parametrize("name", WORKFLOWS)
def test_every_workflow_runs_the_projects_own_checks(name: str) -> None:
    assert "bash .ci/run" in str(parsed(name))


def test_the_hooks_of_commits_are_the_steps_of_lint() -> None:
    document = parsed(".pre-commit-config.yaml")
    assert isinstance(document, dict)
    hooks = {
        hook["entry"].removeprefix(".venv/bin/").removesuffix(" --force-exclude")
        for repository in document["repos"]
        for hook in repository["hooks"]
    }
    lint = re.search(r"^lint:.*\n((?:\t.*\n)+)", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    assert lint
    steps = re.findall(r"\$\(BIN\)/([\w-]+(?: format| check)?)", lint[1])
    assert hooks == set(steps)


def test_the_container_for_development_makes_what_there_is_to_make() -> None:
    document = json.loads((REPOSITORY / ".devcontainer/devcontainer.json").read_text())
    program, *targets = document["postCreateCommand"].split()
    made = re.findall(r"^(\.?[\w/.-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    assert (program, set(targets) - set(made)) == ("make", set())
    assert document["containerEnv"]["PATH"].startswith("${containerWorkspaceFolder}/.venv/bin:")


def test_the_citation_names_this_release() -> None:
    document = parsed("CITATION.cff")
    assert isinstance(document, dict)
    assert document["version"] == __version__
    assert document["license"] == tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["license"]


def test_both_hosts_have_the_same_template_for_a_change() -> None:
    github, gitlab = ".github/pull_request_template.md", ".gitlab/merge_request_templates/Default.md"
    assert (REPOSITORY / github).read_text() == (REPOSITORY / gitlab).read_text()


def test_the_links_of_the_projects_files_lead_somewhere() -> None:
    for name in ("SECURITY.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        for target in re.findall(r"\]\(([^)#\s]+)", Path(REPOSITORY / name).read_text()):
            assert "://" in target or (REPOSITORY / target).exists(), (name, target)
