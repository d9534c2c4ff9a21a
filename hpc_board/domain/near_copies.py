"""Near copies among the files of different users, by fingerprints of their tokens: a hint, and no verdict.

The fingerprints are chosen by winnowing, after Schleimer, Wilkerson and Aiken (2003). They have no names, numbers and
comments, so that renaming changes nothing, but names behind a dot or two colons: calls of libraries tell files apart.
"""

import keyword
import re
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations

import msgspec

from hpc_board.domain.code_tokens import first_tokens
from hpc_board.domain.run import Run
from hpc_board.model.task import Language

FILES_OF_USER_MAX = 10
"""Number of the newest different files of a user on a task that are compared."""

SHARE = 0.6
"""The usual share of fingerprints in common from which two files are listed."""

_GRAM_TOKENS = 16
_WINDOW = 8
"""Numbers of winnowing: a run of 23 tokens in common is found, one of less than 16 is not."""

_FINGERPRINTS_MIN = 8
"""Number of a file's own fingerprints below which it is too short to compare."""

_ALL_PAIRS_MAX = 8
"""Number of users of a fingerprint up to which each is paired with each; else each is paired with the first."""

_CANDIDATES_MAX = 2000
"""Number of pairs of users whose files are compared: those with the most fingerprints in common."""

_NAME = re.compile(rb"[A-Za-z_]\w*")
_NUMBER = re.compile(rb"\.?[0-9]")
_MEMBER = (b".", b"::", b"->")
_C_WORDS = """
auto bool break case char class const continue default delete do double else enum extern float for goto if inline int
long namespace new operator private public return short signed sizeof static struct switch template this typedef
typename union unsigned using void volatile while __global__ __device__ __shared__
"""
_KEPT = frozenset(word.encode() for word in (*keyword.kwlist, *_C_WORDS.split()))


class NearCopy(msgspec.Struct, frozen=True):
    """Two files of different users, the older one first, each by a run of its first submission.

    `fingerprints` is the number of those in both, and `share` their part of those of the file that has fewer; those of
    the task's own files are left out.
    """

    older: Run
    newer: Run
    share: float
    fingerprints: int


def fingerprints(code: bytes, language: Language) -> frozenset[int]:
    """Return the fingerprints of a file: in each window of hashes of token runs the least one."""
    tokens, before = [], b""
    for token in first_tokens(code, language):
        plain = token
        if before not in _MEMBER and token not in _KEPT and _NAME.fullmatch(token):
            plain = b"n"
        elif _NUMBER.match(token):
            plain = b"0"
        # C++ has two tokens for ::.
        before = b"::" if token == before == b":" else token
        tokens.append(plain)
    hashes = [
        zlib.crc32(b"\0".join(tokens[at : at + _GRAM_TOKENS])) for at in range(max(0, len(tokens) - _GRAM_TOKENS + 1))
    ]
    return frozenset(min(hashes[at : at + _WINDOW]) for at in range(max(0, len(hashes) - _WINDOW + 1)))


def near_copies(files: Mapping[Run, Collection[int]], own: Collection[int], share: float) -> tuple[NearCopy, ...]:
    """Return the most similar files of each two users with at least this share in common, the largest share first.

    `files` has the fingerprints of each file, and `own` are those of the task's own files.
    """
    by_user: dict[str, list[tuple[Run, frozenset[int]]]] = {}
    for file in sorted(files, key=lambda each: each.id):
        marks = frozenset(files[file]) - frozenset(own)
        if len(marks) >= _FINGERPRINTS_MIN:
            by_user.setdefault(file.user, []).append((file, marks))
    found = []
    for one, other in _candidates(by_user):
        pairs = ((a, b, len(x & y), min(len(x), len(y))) for a, x in by_user[one] for b, y in by_user[other])
        first, second, common, least = max(pairs, key=lambda each: (each[2] / each[3], each[2]))
        older, newer = sorted((first, second), key=lambda each: each.id)
        if common >= share * least:
            found.append(NearCopy(older, newer, common / least, common))
    return tuple(sorted(found, key=lambda each: (-each.share, -each.fingerprints, each.newer.id)))


def _candidates(by_user: Mapping[str, Iterable[tuple[Run, Collection[int]]]]) -> Sequence[tuple[str, str]]:
    """Return the pairs of users with the most fingerprints in common, in the order of their first files."""
    users_of: dict[int, list[str]] = {}
    for user, theirs in by_user.items():
        for mark in frozenset().union(*(marks for _, marks in theirs)):
            users_of.setdefault(mark, []).append(user)
    counts: Counter[tuple[str, str]] = Counter()
    for users in users_of.values():
        if len(users) <= _ALL_PAIRS_MAX:
            counts.update(combinations(users, 2))
        else:
            counts.update((users[0], each) for each in users[1:])
    return [pair for pair, count in counts.most_common(_CANDIDATES_MAX) if count >= _FINGERPRINTS_MIN // 2]
