"""The engine's loop outlives what breaks down in it."""

from __future__ import annotations

import queue
from typing import Any

import pytest
from engine_support import FakeRunner, make_core, make_sequence

from services.engine.core_thread import Add, CoreThread, End, Stop
from services.engine.ending import Ending
from services.engine.updates import Finished, StepOutput
from stagemesh.api.common.v1 import common_pb2

ABORTED = Ending(common_pb2.FINISH_REASON_ABORT)


@pytest.mark.parametrize("place", ["arrived", "refusal"])
def test_a_sequence_that_cannot_be_taken_up_fails_alone(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    core = make_core(FakeRunner(20), 20)
    real = getattr(core.policy, place)

    def broken(sequence: Any, *arguments: Any) -> Any:
        if sequence.sequence_id == "bad":
            raise RuntimeError("broken on purpose")
        return real(sequence, *arguments)

    monkeypatch.setattr(core.policy, place, broken)
    outputs: queue.SimpleQueue[StepOutput] = queue.SimpleQueue()
    thread = CoreThread(core, outputs.put)
    thread.start()
    for name in ("bad", "good"):
        thread.send(Add(make_sequence(name, [1, 2, 3], max_tokens=4)))
    finished: dict[str, Finished] = {}
    while len(finished) < 2:
        for update in outputs.get(timeout=20).updates:
            if update.finished is not None:
                finished[update.sequence_id] = update.finished
    assert finished["good"].ending.error is None
    assert finished["bad"].ending.error is not None
    assert finished["bad"].ending.error.reason == "ENGINE_FAULT"
    thread.send(End("bad", ABORTED))
    thread.send(Stop(ABORTED))
    assert thread.join(20)
    core.check_integrity()
