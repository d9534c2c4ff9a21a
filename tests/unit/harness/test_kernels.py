"""The numbers of kernels in what profilers write, which a submission may have written instead."""

import json

from hpc_board.harness.profile.kernels import NSYS_COLUMNS, of_table, of_torch


def test_numbers_that_no_result_holds_are_left_out() -> None:
    table = "Name,Instances,Avg (ns)\nmine,9e99,1500\nright,2,1500\n"
    assert [(each.name, each.launches) for each in of_table(table, NSYS_COLUMNS)] == [("right", 2), ("mine", None)]
    rows = [["mine", 1e17, 1.0], ["late", 1, 1e17], ["right", 2, 3000]]
    assert [(each.name, each.launches, each.duration_ns) for each in of_torch(json.dumps(rows))] == [
        ("right", 2, 1500.0)
    ]
