"""Calls of `Score` beside one another: whoever goes leaves the others alone."""

from __future__ import annotations

import asyncio
import time

from engine_support import VOCAB

from services.engine.config import ScoreConfig
from services.engine.core_thread import Add, Command
from services.engine.ending import Ending
from services.engine.request import ComputedBy, RequestLimits
from services.engine.scorer import Scorer
from services.engine.updates import Finished, Load, StepOutput, Update
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.engine.v1 import engine_pb2

STOPPED = Ending(common_pb2.FINISH_REASON_STOP)


async def test_a_caller_that_goes_as_its_scores_arrive_does_not_keep_the_others_from_theirs() -> None:
    sent: list[Command] = []
    scorer = Scorer(
        sent.append, RequestLimits(vocab_size=VOCAB, max_total_tokens=64, max_output_tokens=None), ScoreConfig()
    )
    gone, stays = (asyncio.create_task(score(scorer)) for _ in range(2))
    while len(sent) < 2:
        await asyncio.sleep(0)
    names = [command.sequence.sequence_id for command in sent if isinstance(command, Add)]
    gone.cancel()
    scorer.on_output(finished(names))  # before the task has run and taken its wait away
    async with asyncio.timeout(5):
        await asyncio.gather(gone, stays, return_exceptions=True)
    assert gone.cancelled()
    assert stays.exception() is None
    assert scorer.num_live == 0


async def score(scorer: Scorer) -> engine_pb2.ScoreResponse:
    request = engine_pb2.ScoreRequest(token_ids=[5, 6, 7])
    request.continuations.add(token_ids=[8])
    return await scorer.score(request, ComputedBy(), time.monotonic() + 60)


def finished(names: list[str]) -> StepOutput:
    updates = [Update(name) for name in names]
    for update in updates:
        update.finished = Finished(
            ending=STOPPED, prompt_tokens=3, completion_tokens=0, cached_tokens=0, stage_seconds=()
        )
    return StepOutput(updates, Load())
