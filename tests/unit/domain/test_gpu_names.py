"""The models of GPUs by their many names."""

import pytest

from hpc_board.domain.gpu_names import (
    MODELS,
    GpuDescription,
    Model,
    board_name,
    gpu_model_name,
    name_mismatch,
    parse_gpu_name,
    parse_gpu_names,
)
from hpc_board.model.gpu import Device


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA A100-SXM4-40GB", "A100"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("NVIDIA B200", "B200"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40S", "L40S"),
        ("Tesla T4", "T4"),
        ("Tesla V100-PCIE-16GB", "V100"),
        ("NVIDIA RTX A6000", "A6000"),
        ("NVIDIA GeForce RTX 4090", "RTX-4090"),
        ("NVIDIA TITAN V", "TITAN-V"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX-6000-Ada"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX-PRO-6000"),
        ("NVIDIA GeForce RTX 2080 Ti", "RTX-2080-Ti"),
        ("AMD Instinct MI300X OAM", "MI300X"),
        ("NVIDIA Z999", "Z999"),
        ("\x1b]0;x\x07", "0-x"),
        ("Tesla", "GPU"),
    ],
)
def test_a_gpu_model_has_a_short_name(model: str, name: str) -> None:
    assert gpu_model_name(model) == name


@pytest.mark.parametrize(
    ("text", "model", "memory", "form", "mig"),
    [
        ("nvidia_h100_80gb_hbm3", "H100", "80GB", "SXM", ""),
        ("h100", "H100", "", "", ""),
        ("h100-96", "H100", "96GB", "", ""),
        ("h100pcie", "H100", "", "PCIe", ""),
        ("h100_nvl", "H100", "", "NVL", ""),
        ("nvidia_a100-pcie-40gb", "A100", "40GB", "PCIe", ""),
        ("a100_3g.20gb", "A100", "", "", "3g.20gb"),
        ("1g.10gb", None, "", "", "1g.10gb"),
        ("gpu_v100", "V100", "", "", ""),
        ("v100-sxm2-32gb", "V100", "32GB", "SXM", ""),
        ("GPU_SKU:H100_SXM5", "H100", "", "SXM", ""),
        ("GPU_MEM:80GB", None, "80GB", "", ""),
        ("nvidia_geforce_rtx_4090", "RTX-4090", "", "", ""),
        ("rtx2080ti", "RTX-2080-Ti", "", "", ""),
        ("l40s", "L40S", "", "", ""),
        ("l40", "L40", "", "", ""),
        ("a10g", "A10G", "", "", ""),
        ("a1000", None, "", "", ""),
        ("xa100", None, "", "", ""),
        ("node-l4b", None, "", "", ""),
        ("mi300x", "MI300X", "", "", ""),
        ("instinct_mi250x", "MI250X", "", "", ""),
        ("max1550", None, "", "", ""),
        ("", None, "", "", ""),
    ],
)
def test_a_text_is_searched_for_the_longest_name_and_what_qualifies_it(
    text: str, model: str | None, memory: str, form: str, mig: str
) -> None:
    assert parse_gpu_name(text) == GpuDescription(MODELS[model] if model else None, memory, form, mig)


def test_several_texts_say_together_what_each_says_alone() -> None:
    (only,) = parse_gpu_names(["ib", "a100", "a100_80gb", "sxm4"])
    assert (only.model, only.memory) == (MODELS["A100"], "80GB")
    assert [each.model for each in parse_gpu_names(["v100", "p100", "cpu"])] == [MODELS["P100"], MODELS["V100"]]


@pytest.mark.parametrize(
    ("board", "found", "mig", "why"),
    [
        ("H100", "NVIDIA H100 80GB HBM3", False, ""),
        ("H100-exclusive", "NVIDIA H100 80GB HBM3", False, ""),
        ("fast-gpu", "NVIDIA H100 80GB HBM3", False, ""),
        ("H100", "NVIDIA A100-SXM4-80GB", False, "it is NVIDIA A100-SXM4-80GB, but the name says H100"),
        ("H100", "Quantum 9000", False, "it is Quantum 9000, but the name says H100"),
        ("A100-40GB", "NVIDIA A100-SXM4-80GB", False, "its memory is 80GB, but the name says 40GB"),
        ("H100-PCIe", "NVIDIA H100 80GB HBM3", False, "its form is SXM, but the name says PCIe"),
        ("A100-3g.20gb", "NVIDIA A100-SXM4-40GB", True, ""),
        ("A100-3g.20gb", "NVIDIA A100-SXM4-40GB", False, "it is a whole NVIDIA A100-SXM4-40GB"),
        ("A100", "NVIDIA A100-SXM4-40GB", True, "it is a slice of a GPU"),
        ("A100-MIG", "NVIDIA A100-SXM4-40GB", True, ""),
    ],
)
def test_a_gpu_is_compared_with_what_the_name_of_its_board_says(board: str, found: str, mig: bool, why: str) -> None:
    said = name_mismatch(board, found, mig=mig)
    assert (said.startswith(why), bool(said)) == (True, bool(why))


@pytest.mark.parametrize("found", MODELS.values(), ids=lambda model: model.name)
def test_a_model_is_found_by_its_own_name_and_has_an_architecture_that_its_compiler_takes(found: Model) -> None:
    assert parse_gpu_name(found.name).model == found
    assert board_name([found.name]) == found.name
    if found.arch and found.device is Device.HIP:
        assert found.arch.startswith("gfx")
    elif found.arch:
        assert found.arch.startswith("sm_")
        assert found.arch.endswith("a") == (int(found.arch[3:].rstrip("a")) >= 90)


def test_a_board_s_name_keeps_no_letter_that_no_name_may_have() -> None:
    assert board_name(["A100", "gpu/short", "é"]) == "A100-gpushort"
    assert board_name(["\x1b[0m", "_x"]) == "0m-_x"
    assert board_name(["//"]) == ""


def test_the_memory_of_a_superchip_s_cpu_is_not_taken_for_the_gpu_s() -> None:
    assert parse_gpu_name("NVIDIA GH200 480GB") == GpuDescription(MODELS["GH200"])
