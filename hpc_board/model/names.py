"""The names of tasks, GPUs and clusters: their pattern, and the nearest valid name to an unknown one."""

from collections.abc import Iterable

NAME = r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}"
"""The regular expression of a task's, a GPU's and a cluster's name."""

NAME_WORDS = "a name of letters, digits and . _ + - that begins with a letter or digit, at most 64 characters"
"""Description of `NAME` for people."""


def suggestion(word: str, words: Iterable[str]) -> str:
    """Return the sentence ' Did you mean "x"?' with the nearest of `words`, case aside; "" if none is near."""
    near = nearest(word, words)
    return f' Did you mean "{near}"?' if near else ""


def nearest(word: str, words: Iterable[str]) -> str:
    """Return the one of `words` that is near to `word`, case aside; "" if none is."""
    by_folded = {candidate.casefold(): candidate for candidate in words}

    import difflib

    near = difflib.get_close_matches(word[:100].casefold(), by_folded, n=1)
    return by_folded[near[0]] if near else ""


def listed(words: Iterable[str]) -> list[str]:
    """Return the names in `words`, each of which may hold several with commas between them."""
    return [part.strip() for word in words for part in word.split(",")]
