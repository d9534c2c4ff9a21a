#!POPCORN leaderboard doubled_numbers
"""Computes in pure Python by generators that call themselves."""


def _doubled(numbers):
    if len(numbers) == 1:
        yield 2 * numbers[0]
        return
    middle = len(numbers) // 2
    yield from _doubled(numbers[:middle])
    yield from _doubled(numbers[middle:])


def custom_kernel(data):
    return list(_doubled(data))
