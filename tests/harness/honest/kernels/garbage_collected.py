#!POPCORN leaderboard doubled_numbers
"""Makes much garbage in circles and collects it within each call."""

import gc


class _Node:
    """A number that knows itself."""

    def __init__(self, number):
        self.number = number
        self.own = self


def custom_kernel(data):
    nodes = [_Node(number) for number in data for _ in range(5)]
    output = [2 * node.number for node in nodes[::5]]
    del nodes
    gc.collect()
    return output
