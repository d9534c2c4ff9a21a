"""The file with the peaks of CPUs."""

import pytest

from hpc_board.model.peaks import Peak, cpu_peak, with_cpu_peak


def test_a_peak_is_that_of_the_model_and_the_number_of_processors() -> None:
    one, two = Peak(2e10, 1e11, is_measured=True), Peak(4e10, 2e11, is_measured=True)
    data = with_cpu_peak(with_cpu_peak(b"", "EPYC", 8, one), "EPYC", 16, two)
    assert [cpu_peak(data, "EPYC", cpus) for cpus in (8, 16, 4)] == [one, two, None]
    assert cpu_peak(data, "Xeon", 8) is None
    assert cpu_peak(with_cpu_peak(data, "EPYC", 8, two), "EPYC", 8) == two
    assert cpu_peak(with_cpu_peak(data, "EPYC", 8, Peak(3e10, 1e9)), "EPYC", 8) == Peak(3e10, 1e11, is_measured=True)


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{", b'{"8 x EPYC": 3}', b'{"8 x EPYC": [1, "2"]}', b'{"8 x EPYC": [1e999, 1]}', b"[" * 10**5]
)
def test_a_damaged_file_has_no_peak_and_is_written_anew(data: bytes) -> None:
    assert cpu_peak(data, "EPYC", 8) is None
    assert cpu_peak(with_cpu_peak(data, "EPYC", 8, Peak(1, 2)), "EPYC", 8) == Peak(1, 2, is_measured=True)
