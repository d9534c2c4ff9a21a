"""Changes of a served board, as one of its users may see them."""

import msgspec


class Change(msgspec.Struct, frozen=True):
    """A change since the one before.

    - `runs` are the user's own runs with a new state, and those in flight from time to time.
    - `runners` is true if one of the user's own runners has a new state.
    - `entry` is the number of the newest entry of the feed among the changes; 0 without one.
    - `anew` is true of the first change of a stream, which stands for all that came before it.
    - `facts` is false if schedulers may have answered or running jobs may have written output, and no more.
    """

    runs: tuple[int, ...] = ()
    entry: int = 0
    anew: bool = False
    facts: bool = True
    runners: bool = False
