"""Asks an engine which values of a source belong to the fields that the rules leave open."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from services.corrector.adapters.in_use import Adapter
from services.corrector.config import RankingConfig
from services.corrector.engine_client import EngineClient
from services.corrector.proposals import Findings, Problem
from services.corrector.ranking.calibration import CALIBRATION_FILE, calibration_of
from services.corrector.ranking.decide import decide, rank
from services.corrector.ranking.likelihood import Prompt, probabilities, prompt_of
from services.corrector.ranking.question import Question
from services.corrector.renderer import RendererSet
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.models.errors import ModelCorrupt
from stagemesh.runtime.deadline import Deadline
from stagemesh.runtime.errors import Unavailable
from stagemesh.runtime.telemetry import get_logger

SALT_BYTES = 16

Ask = Callable[[Problem], Awaitable[Sequence[Question]]]
"""`ask.ask` in the sandbox."""

log = get_logger(__name__)


class Ranker:
    """A `Proposer`. Without an adapter, or where nothing is open, no engine is asked."""

    def __init__(
        self, ask: Ask, renderers: RendererSet, engines: EngineClient, config: RankingConfig, default: Adapter | None
    ) -> None:
        """`default`: where a problem names no adapter."""
        self._ask = ask
        self._renderers = renderers
        self._engines = engines
        self._config = config
        self._default = default

    async def propose(self, problem: Problem, deadline: Deadline) -> Findings:
        """Raises what the engine raises, DeadlineExceeded, or Unavailable for a source that is too long."""
        adapter = problem.asked.adapter or self._default
        if adapter is None or not problem.is_open:
            return Findings()
        calibration = calibration_of(adapter.calibration)
        questions = await self._ask(problem)
        if not questions:
            return Findings()
        model = problem.asked.model or common_pb2.ModelIdentity()
        renderer = await self._renderers.find(model)
        prompt = prompt_of(problem.source, questions, renderer.token_ids)
        if len(prompt.token_ids) > self._config.max_source_tokens:
            raise Unavailable("SOURCE_TOO_LONG", f"a source of {len(prompt.token_ids)} tokens is not ranked")
        within = Deadline(min(deadline.at_s, time.monotonic() + self._config.timeout_ms / 1000))
        answer = await self._engines.score(_request(prompt, problem, adapter, model), within)
        likely = probabilities(prompt, len(questions), [list(score.token_logprobs) for score in answer.scores])
        found = decide(rank(questions, likely), calibration)
        return Findings(proposals=found.proposals, confirmed=found.confirmed, forwards=answer.usage.forwards)


def _request(
    prompt: Prompt, problem: Problem, adapter: Adapter, model: common_pb2.ModelIdentity
) -> engine_pb2.ScoreRequest:
    """Nothing of it is shared with other calls: the source is a caller's."""
    request = engine_pb2.ScoreRequest(
        tenant_id=problem.asked.tenant_id,
        token_ids=prompt.token_ids,
        model=adapter.chosen_on(model),
        cache_salt=os.urandom(SALT_BYTES),
    )
    for one in prompt.continuations:
        request.continuations.add(token_ids=one.token_ids)
    return request


def configured_adapter(config: RankingConfig) -> Adapter | None:
    """The one that the configuration names. Raises ModelCorrupt for a calibration that cannot be read."""
    if not config.adapter:
        return None
    calibration = read_calibration(Path(config.calibration)) if config.calibration else {}
    if not calibration:
        log.warning("the adapter has no calibration, so that nothing it says counts as sure", adapter=config.adapter)
    return Adapter(name=config.adapter, generation=0, revision="", calibration=calibration)


def read_calibration(path: Path) -> dict[str, Any]:
    """Of `calibration.json`, or of a folder that may have one; empty where there is none. Raises ModelCorrupt."""
    file = path / CALIBRATION_FILE if path.is_dir() else path
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ModelCorrupt(f"{file} cannot be read: {error}") from None
    return data if isinstance(data, dict) else {}
