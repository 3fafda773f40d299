from types import SimpleNamespace
from typing import cast

import pytest

from services.gateway import requests
from services.gateway.follow import Follower
from services.gateway.requests import Requests
from services.gateway.running import RunningRequest
from stagemesh.api.gateway.v1 import gateway_pb2


def ended(name: str, text: str) -> RunningRequest:
    running = RunningRequest("t", name)
    running.publish(delta=gateway_pb2.Delta(text=text))
    running.publish(final=gateway_pb2.Final())
    return running


def table(max_ended: int) -> Requests:
    return Requests(cast(Follower, SimpleNamespace()), max_ended=max_ended)


async def test_the_newest_ended_requests_are_found_and_older_ones_are_not() -> None:
    kept = table(max_ended=2)
    for name in "abc":
        kept.remember(ended(name, "x"))
    assert [kept.find(("t", name)) is not None for name in "abc"] == [False, True, True]


async def test_large_answers_push_others_out_by_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "MAX_ENDED_BYTES", 1_000)
    kept = table(max_ended=100)
    for name in "abc":
        kept.remember(ended(name, "x" * 450))
    assert [kept.find(("t", name)) is not None for name in "abc"] == [False, True, True]
    kept.remember(ended("huge", "x" * 2_000))
    assert kept.find(("t", "huge")) is None
