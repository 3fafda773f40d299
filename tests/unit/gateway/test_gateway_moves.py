"""When a sequence goes on at another engine, and at which."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from services.gateway.moves import Moves
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.runtime.breaker import Breaker, BreakerConfig, State
from stagemesh.runtime.errors import Exhausted, Internal, InvalidRequest, StagemeshError, to_detail

ERROR, ABORT, STOP = common_pb2.FINISH_REASON_ERROR, common_pb2.FINISH_REASON_ABORT, common_pb2.FINISH_REASON_STOP


def link(address: str) -> Any:
    return SimpleNamespace(address=address, breaker=Breaker(BreakerConfig(failure_threshold=1, open_s=600)))


def finish(reason: common_pb2.FinishReason.ValueType, error: StagemeshError | None = None) -> engine_pb2.SequenceDelta:
    delta = engine_pb2.SequenceDelta(token_ids=[1])
    delta.finish.reason = reason
    if error is not None:
        delta.finish.error.CopyFrom(to_detail(error))
    return delta


@pytest.mark.parametrize("error", [Internal("STEP_FAILED", "x"), Exhausted("ENGINE_OUT_OF_MEMORY", "x")])
def test_a_fault_of_the_engine_moves_its_sequence_and_speaks_against_it(error: StagemeshError) -> None:
    moves, bad, good = Moves(), link("bad"), link("good")
    delta = finish(ERROR, error)
    assert moves.take_finish(delta, bad)
    assert not delta.HasField("finish"), "the caller sees one stream"
    assert delta.token_ids == [1]
    assert moves.fault is not None
    assert moves.fault.reason == error.reason
    assert bad.breaker.state is State.OPEN
    assert moves.candidates([bad, good]) == [good]
    assert moves.candidates([bad]) == [bad], "better than none"


def test_a_fault_of_the_request_ends_it() -> None:
    moves, engine = Moves(), link("a")
    delta = finish(ERROR, InvalidRequest("INVALID_CONSTRAINT", "x"))
    assert not moves.take_finish(delta, engine)
    assert delta.HasField("finish")
    assert engine.breaker.state is State.CLOSED


def test_an_answer_ends_it_and_speaks_for_the_engine() -> None:
    moves, engine = Moves(), link("a")
    assert not moves.take_finish(engine_pb2.SequenceDelta(), engine)
    assert not moves.take_finish(finish(STOP), engine)
    assert engine.breaker.state is State.CLOSED


async def test_an_engine_that_drains_or_is_busy_is_not_blamed() -> None:
    moves, engine = Moves(), link("a")
    assert moves.take_finish(finish(ABORT), engine)
    assert moves.take_finish(finish(ERROR, Exhausted("VALIDATION_BUSY", "x", retry_after_ms=200)), engine)
    assert engine.breaker.state is State.CLOSED
    assert moves.candidates([engine]) == [engine]


def test_a_lost_engine_says_nothing() -> None:
    moves, engine = Moves(), link("a")
    moves.take_finish(finish(ERROR, Internal("STEP_FAILED", "x")), engine)
    moves.lost(link("b"))
    assert moves.fault is None
