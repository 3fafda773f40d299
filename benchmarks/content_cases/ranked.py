"""Corrections that ask an engine in this process, with an adapter, about what the rules leave open."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.correction_cases.case import Case
from services.corrector.adapters.in_use import Adapter
from services.corrector.amend import amended
from services.corrector.chain import RepairChain
from services.corrector.changes import MIN_CONFIDENCE
from services.corrector.config import RankingConfig
from services.corrector.proposals import Findings, Problem
from services.corrector.ranking.ask import ask
from services.corrector.ranking.question import Question
from services.corrector.ranking.ranker import Ranker, read_calibration
from services.corrector.renderer import Renderer
from services.corrector.repair import Repair, problem_of
from services.engine.config import AdaptersConfig, EngineConfig
from services.engine.engine import Engine, load_model
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.models.chat_template import compile_template
from stagemesh.models.store import ModelFiles
from stagemesh.models.tokenizer_file import load_tokenizer
from stagemesh.runtime.deadline import Deadline
from stagemesh.runtime.errors import Unavailable
from stagemesh.validation.constraint import Constraint, Kind

NAME = "corrector"
LIMIT_S = 30.0


@dataclass(frozen=True)
class Cost:
    """Of one text that the engine was asked about, beyond the prefill of its source."""

    passes: int
    ms: float


@dataclass
class Here:
    """Stands where the service has its engines, renderers and sandbox."""

    engine: Engine
    renderer: Renderer
    costs: list[Cost] = field(default_factory=list)

    async def ask(self, problem: Problem) -> Sequence[Question]:
        return ask(problem)

    async def find(self, identity: common_pb2.ModelIdentity) -> Renderer:
        return self.renderer

    async def score(self, request: engine_pb2.ScoreRequest, deadline: Deadline) -> engine_pb2.ScoreResponse:
        """The source first by itself, so that its prefill is told from what the questions take."""
        prefill = engine_pb2.ScoreRequest()
        prefill.CopyFrom(request)
        del prefill.continuations[1:]
        await self.engine.score(prefill, deadline.at_s)
        started_s = time.perf_counter()
        answer = await self.engine.score(request, deadline.at_s)
        self.costs.append(Cost(answer.usage.forwards, (time.perf_counter() - started_s) * 1e3))
        return answer


@asynccontextmanager
async def engine_with(files: ModelFiles, adapter: Path, num_threads: int) -> AsyncIterator[Here]:
    config = EngineConfig(threads=num_threads, adapters=AdaptersConfig(load={NAME: str(adapter)}))
    engine = Engine(load_model(files, config), config)
    engine.start()
    tokenizer = load_tokenizer(files)
    try:
        yield Here(engine, Renderer(tokenizer, tokenizer.build(), compile_template(tokenizer.chat_template)))
    finally:
        await engine.stop(Unavailable("DRAINING", "the benchmark is over"))
        engine.close()


class RankedChain:
    """The rules, then the model."""

    def __init__(self, chain: RepairChain, here: Here, adapter: Path) -> None:
        self._chain = chain
        self._ranker = Ranker(
            here.ask, here, here, RankingConfig(timeout_ms=LIMIT_S * 1e3), # type: ignore[arg-type]
            Adapter(name=NAME, generation=0, revision="", calibration=read_calibration(adapter)),
        )  # fmt: skip

    async def correct(self, case: Case, repair: Repair) -> Repair:
        """What becomes of a text that the rules have repaired."""
        constraint = Constraint(Kind.JSON_SCHEMA, json.dumps(case.schema))
        problem = problem_of(case.text, repair, constraint, (), case.source or "")
        found = await self._ranker.propose(problem, Deadline.after(LIMIT_S))
        if found == Findings():
            return repair
        return amended(self._chain.validator, repair, found, constraint, (), MIN_CONFIDENCE)
