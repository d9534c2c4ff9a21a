"""A template of the settings that cannot be rendered is an error of the settings, whatever goes wrong in it."""

from dataclasses import replace
from pathlib import Path

import pytest

from hpc_board import jobs
from hpc_board.errors import InputError
from hpc_board.model.gpu import Cluster, ContainerRuntime, Device, Gpu, JobContainer
from hpc_board.model.task import Language, Mode, Task, TaskFile

TASK = Task("vector_add", Language.PY, "Add two vectors.", (TaskFile("submission.py", None),))
CPU = Gpu("CPU", Cluster("here", "local"), Device.CPU, "cpu")


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}", "recursion"),
        ("{{ " + "(" * 5000 + ")" * 5000 + " }}", "recursion"),
        ("{{ 'x' * 10**18 }}", "MemoryError"),
        ("{% for a in task %}" * 30 + "{% endfor %}" * 30, "nested blocks"),
        ("{{ nobody }}", "undefined"),
        ("{{ 1 / 0 }}", "division"),
        ("{{ task.foo() }}", "foo"),
        ("{% if %}", "Expected"),
    ],
)
def test_a_template_that_cannot_be_rendered_is_named(tmp_path: Path, template: str, words: str) -> None:
    path = tmp_path / "job.sh.j2"
    path.write_text(template)
    with pytest.raises(InputError, match=words) as refusal:
        jobs.script(TASK, replace(CPU, template=str(path)), Mode.TEST)
    assert refusal.value.message.startswith(f"{path}: the batch script template cannot be rendered: ")
    assert "gpus.CPU.template" in refusal.value.hint


def test_a_template_that_leaves_the_container_out_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "job.sh.j2"
    path.write_text("{{ python }} -I -B {{ harness }} supervise {{ facts }}")
    contained = JobContainer(ContainerRuntime.APPTAINER, "/k.sif", (), "gpus.CPU.container")
    gpu = replace(CPU, template=str(path), container=contained)
    with pytest.raises(InputError, match=r"does not start the container that gpus\.CPU\.container asks for"):
        jobs.script(TASK, gpu, Mode.TEST)
    path.write_text('{% include "container.sh.j2" %}\n"${container[@]}" ' + path.read_text())
    assert "apptainer --silent exec" in jobs.script(TASK, gpu, Mode.TEST).text
