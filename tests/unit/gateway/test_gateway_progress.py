"""Events of a request that an engine has not answered yet."""

from __future__ import annotations

from services.gateway.progress import Progress
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.api.gateway.v1 import gateway_pb2


def told(*news: tuple[float, int, int]) -> list[gateway_pb2.Queued]:
    """What is published of (time, position, prefilled tokens)."""
    events: list[gateway_pb2.Queued] = []
    progress = Progress("r", 6_000, events.append, 0.0)
    for now_s, position, prefilled in news:
        state = engine_pb2.QueueState(position=position, estimated_wait_us=1_500_000, prefilled_tokens=prefilled)
        progress.tell(state, now_s)
    return events


def test_who_has_to_wait_hears_it_at_once_with_an_estimate() -> None:
    (first,) = told((0.01, 3, 0))
    assert (first.position, first.estimated_wait_ms, first.prompt_tokens) == (3, 1_500, 6_000)


def test_a_position_that_moves_with_every_step_is_told_four_times_a_second() -> None:
    events = told(*((0.05 * step, 200 - step, 0) for step in range(1, 101)))
    assert 15 <= len(events) <= 22
    assert [event.position for event in events] == sorted((event.position for event in events), reverse=True)


def test_a_long_prompt_tells_its_progress_once_a_second_and_a_short_one_nothing() -> None:
    events = told(*((0.06 * step, 0, 60 * step) for step in range(1, 100)))
    assert 4 <= len(events) <= 6
    assert [event.prefilled_tokens for event in events] == sorted(event.prefilled_tokens for event in events)
    assert told((0.06, 0, 60), (0.12, 0, 120)) == []
