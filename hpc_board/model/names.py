"""The names of tasks, GPUs and clusters: their pattern, and the nearest valid name to an unknown one."""

from collections.abc import Iterable

NAME = r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}"
"""The regular expression of a task's, a GPU's and a cluster's name."""

NAME_WORDS = "a name of letters, digits and . _ + - that begins with a letter or digit, at most 64 characters"
"""Description of `NAME` for people."""


def suggestion(word: str, words: Iterable[str]) -> str:
    """Return the sentence ' Did you mean "x"?' with the nearest of `words`; "" if none is near.

    If no name differs by a typing error, the sentence has the first two of which `word` is a part between dashes.
    """
    words = list(words)
    part = _compared(word)
    holders = [each for each in words if {part, f"{part}s"} & {*_compared(each).split("-")}]
    found = '" or "'.join([near] if (near := nearest(word, words)) else holders[:2])
    return f' Did you mean "{found}"?' if found else ""


def nearest(word: str, words: Iterable[str]) -> str:
    """Return the one of `words` that is near to `word`, case and leading dashes aside; "" if none is."""
    by_compared = {_compared(candidate): candidate for candidate in words}

    import difflib

    near = difflib.get_close_matches(_compared(word[:100]), by_compared, n=1)
    return by_compared[near[0]] if near else ""


def _compared(word: str) -> str:
    """Return a name as it is compared: dashes before two names would make them similar."""
    return word.lstrip("-").casefold()


def listed(words: Iterable[str]) -> list[str]:
    """Return the names in `words`, each of which may hold several with commas between them."""
    return [part.strip() for word in words for part in word.split(",")]
