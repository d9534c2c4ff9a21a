"""Frames between a client and the service: what was sent arrives, and nothing else does."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpc_board.service.doors import Forged
from hpc_board.service.doors.frames import TEXT_BYTES_MAX, Opening, Sealing, keys
from hpc_board.service.unauthenticated import SealedReader

KEY = bytes(range(32))


def frames_of(texts: Sequence[bytes]) -> list[bytes]:
    """The frames of these texts, and the last one."""
    sealing = Sealing(KEY)
    return [*(sealing.sealed(text) for text in texts), sealing.end()]


def opened(data: bytes) -> tuple[bytes, bool]:
    """The data of the frames that `data` completes, and whether the last of them has come."""
    opening = Opening(KEY)
    return opening.opened(data), opening.ended


TEXTS = st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=6)


@given(texts=st.lists(st.binary(max_size=40), max_size=6), sizes=st.lists(st.integers(1, 50), min_size=1))
def test_data_arrives_in_whatever_pieces_the_network_makes(texts: list[bytes], sizes: list[int]) -> None:
    data, opening, found, position = b"".join(frames_of(texts)), Opening(KEY), b"", 0
    while position < len(data):
        size = sizes[position % len(sizes)]
        found += opening.opened(data[position : position + size])
        position += size
    assert (found, opening.ended) == (b"".join(texts), True)


@pytest.mark.parametrize("size", [0, 1, TEXT_BYTES_MAX, TEXT_BYTES_MAX + 1, 3 * TEXT_BYTES_MAX + 5])
def test_data_of_any_size_arrives(size: int) -> None:
    data = bytes(index % 251 for index in range(size))
    assert opened(b"".join(frames_of([data]))) == (data, True)


@given(texts=TEXTS, data=st.data())
def test_a_changed_bit_is_never_taken_for_data(texts: list[bytes], data: st.DataObject) -> None:
    sent = bytearray(b"".join(frames_of(texts)))
    bit = data.draw(st.integers(0, 8 * len(sent) - 1))
    sent[bit // 8] ^= 1 << bit % 8
    expect_at_most_a_beginning(bytes(sent), texts)


@given(texts=TEXTS, data=st.data())
def test_a_cut_stream_has_no_end(texts: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(frames_of(texts))
    found, ended = opened(whole[: data.draw(st.integers(0, len(whole) - 1))])
    assert not ended
    assert b"".join(texts).startswith(found)


@given(texts=TEXTS, data=st.data())
def test_frames_in_another_order_twice_or_left_out_are_refused(texts: list[bytes], data: st.DataObject) -> None:
    sent = frames_of(texts)
    chosen = data.draw(st.lists(st.sampled_from(range(len(sent))), max_size=8))
    order = list(range(len(chosen)))
    if chosen == order:
        return
    with pytest.raises(Forged):
        opened(b"".join(sent[index] for index in chosen))


@given(texts=TEXTS, noise=st.binary(max_size=100), place=st.integers(0, 6))
def test_foreign_bytes_among_frames_are_never_taken_for_data(texts: list[bytes], noise: bytes, place: int) -> None:
    sent = frames_of(texts)
    expect_at_most_a_beginning(b"".join([*sent[:place], noise, *sent[place:]]), texts, noise=noise)


def expect_at_most_a_beginning(data: bytes, texts: list[bytes], noise: bytes = b"x") -> None:
    """Expect an error, or a beginning of the data without the end that was sent after it."""
    try:
        found, ended = opened(data)
    except Forged:
        return
    assert b"".join(texts).startswith(found)
    assert not ended or not noise


def test_a_frame_of_four_gigabytes_is_refused_by_its_length() -> None:
    for size in (0, 16, TEXT_BYTES_MAX + 18, 2**32 - 1):
        with pytest.raises(Forged, match="length"):
            opened(size.to_bytes(4, "big"))


def test_nothing_follows_the_last_frame() -> None:
    sealing = Sealing(KEY)
    last = sealing.end()
    for more in (sealing.sealed(b"x"), b"x"):
        with pytest.raises(Forged):
            opened(last + more)


def test_the_frames_of_one_direction_are_none_of_the_other() -> None:
    to_service, to_client = keys(KEY, b"a nonce", b"a test")
    assert to_service != to_client
    with pytest.raises(Forged):
        Opening(to_client).opened(Sealing(to_service).sealed(b"x"))


def test_keys_follow_from_the_nonce_too() -> None:
    assert keys(KEY, b"one", b"a test") != keys(KEY, b"other", b"a test")


def test_a_frame_without_data_is_refused_unless_it_is_the_last() -> None:
    with pytest.raises(Forged, match="no data"):
        opened(Sealing(KEY)._frame(b"\0"))
    assert opened(Sealing(KEY).end()) == (b"", True)


class Counting(Opening):
    """A receiving end that counts the frames that it opens."""

    count = 0

    def next(self) -> bytes | None:
        text = super().next()
        self.count += text is not None
        return text


def fed(data: bytes, turn: asyncio.Lock) -> tuple[Counting, SealedReader]:
    """A reader at which all of `data` has arrived."""
    arrived, opening = asyncio.StreamReader(), Counting(KEY)
    arrived.feed_data(data)
    return opening, SealedReader(arrived, opening, turn)


def test_connections_of_one_account_together_open_few_frames_before_others_have_their_turn() -> None:
    sealing = Sealing(KEY)
    data = b"".join(sealing.sealed(b"x" * 16) for _ in range(1000)) + sealing.end()

    async def most() -> tuple[int, set[int]]:
        turn = asyncio.Lock()
        ends = [fed(data, turn) for _ in range(8)]
        tasks = [asyncio.ensure_future(_all_of(reader)) for _, reader in ends]
        seen, steps = 0, [0]
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0)
            steps.append(sum(opening.count for opening, _ in ends) - seen)
            seen += steps[-1]
        return max(steps), {task.result() for task in tasks}

    at_once, lengths = asyncio.run(most())
    assert lengths == {16_000}
    assert 0 < at_once <= 64


async def _all_of(reader: SealedReader) -> int:
    length = 0
    while data := await reader.read(64):
        length += len(data)
    return length


@pytest.mark.parametrize(("size", "refused"), [(1, True), (15, True), (16, False)])
def test_a_connection_of_tiny_frames_ends(size: int, refused: bool) -> None:
    sealing = Sealing(KEY)
    data = b"".join(sealing.sealed(b"x" * size) for _ in range(3000)) + sealing.end()

    async def read() -> int:
        opening, reader = fed(data, asyncio.Lock())
        try:
            return await _all_of(reader)
        except Forged:
            assert opening.count < 1100
            return 0

    assert asyncio.run(read()) == (0 if refused else 3000 * size)
