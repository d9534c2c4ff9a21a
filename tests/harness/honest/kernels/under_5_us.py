#!POPCORN leaderboard sum_of_four
"""Takes less than 5 us."""


def custom_kernel(data):
    one, two, three, four = data
    return one + two + three + four
