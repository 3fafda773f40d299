from __future__ import annotations

import pytest

from services.tokenizer.loaded_model import LoadedModel
from services.tokenizer.stream_table import StreamTable
from stagemesh.api.tokenizer.v1.tokenizer_pb2 import DetokenizeChunk
from stagemesh.runtime.errors import Exhausted

HELLO = 19_556


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def table_of(model: LoadedModel, clock: Clock) -> StreamTable:
    return StreamTable(lambda name: model, max_streams=3, idle_s=60, clock=clock)


def chunk(stream_id: str, *, end: bool = False) -> DetokenizeChunk:
    return DetokenizeChunk(stream_id=stream_id, token_ids=[HELLO], end=end)


def test_a_stream_too_many_is_refused_until_another_ends(model: LoadedModel) -> None:
    table = table_of(model, Clock())
    for name in "abc":
        table.feed(chunk(name))
    with pytest.raises(Exhausted, match="TOO_MANY_STREAMS"):
        table.feed(chunk("d"))
    assert table.feed(chunk("a", end=True)) == ("Hello", 2)
    assert table.feed(chunk("d")) == ("Hello", 1)


def test_the_stream_unused_for_longest_makes_room_once_it_is_idle(model: LoadedModel) -> None:
    clock = Clock()
    table = table_of(model, clock)
    for name in "abc":
        table.feed(chunk(name))
        clock.now_s += 1
    table.feed(chunk("a"))
    clock.now_s = 61.5
    table.feed(chunk("d"))  # b was used 60.5 s ago, c 59.5 s, a 58.5 s
    with pytest.raises(Exhausted):
        table.feed(chunk("b"))
    assert table.feed(chunk("a")) == ("Hello", 3)
    assert len(table) == 3
