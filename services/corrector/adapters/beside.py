"""A proposer for each tenant's adapter, with a candidate beside it: it answers its share, and is compared always.

The one that does not answer is asked when the answer is there, in a task of its own: no caller waits for it, and what
it proposes is only compared and counted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from services.corrector.adapters.config import AdaptersConfig
from services.corrector.adapters.in_use import SHARED, Adapter, InUse, Lineup
from services.corrector.adapters.tallies import Tallies
from services.corrector.proposals import ABSENT, Asked, Findings, Problem, Proposer
from services.corrector.repair import Repair
from stagemesh.runtime.deadline import Deadline
from stagemesh.runtime.errors import StagemeshError
from stagemesh.runtime.telemetry import get_logger
from stagemesh.validation.json_text import dump

log = get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class _Said:
    """What one adapter said, how long it took; None: it could not be asked."""

    findings: Findings | None
    ms: int = 0


class AdaptersBeside:
    """A Proposer. `inner` asks a model with the adapter in `problem.asked.adapter`; without one it does as it likes."""

    def __init__(self, inner: Proposer, in_use: Callable[[], InUse], tallies: Tallies, config: AdaptersConfig) -> None:
        self._inner, self._in_use, self._tallies, self._config = inner, in_use, tallies, config
        self._under_way: set[asyncio.Task[None]] = set()

    async def propose(self, problem: Problem, deadline: Deadline) -> Findings:
        """What is found with the tenant's adapter. Raises what `inner` raises."""
        asked = problem.asked
        lineup = self._in_use().of(asked.tenant_id)
        adapter = lineup.answering(asked.request_id)
        started_s = time.monotonic()
        try:
            findings = await self._with(problem, adapter, deadline)
        except StagemeshError:
            self._beside(problem, lineup, _Said(findings=None))
            raise
        self._beside(problem, lineup, _Said(findings=findings, ms=round(1e3 * (time.monotonic() - started_s))))
        return findings

    def told(self, problem: Problem, repair: Repair) -> None:
        """What became of a text that left something to judge: counted for who answered, while there is a candidate."""
        asked = problem.asked
        lineup = self._in_use().of(asked.tenant_id)
        if lineup.candidate is None or not problem.is_open:
            return
        who = "candidate" if lineup.is_canary(asked.request_id) else "present"
        counts = {f"{who}_answered": 1, f"{who}_valid": repair.verdict.valid, f"{who}_certain": repair.certain}
        self._count(asked, lineup.candidate, **counts)

    @property
    def num_under_way(self) -> int:
        """Comparisons."""
        return len(self._under_way)

    async def close(self) -> None:
        """Comparisons that are under way are given up."""
        for task in tuple(self._under_way):
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _with(self, problem: Problem, adapter: Adapter | None, deadline: Deadline) -> Findings:
        return await self._inner.propose(replace(problem, asked=replace(problem.asked, adapter=adapter)), deadline)

    def _beside(self, problem: Problem, lineup: Lineup, answered: _Said) -> None:
        """Have the other adapter asked, where something is left to judge; never waits."""
        if lineup.candidate is None or not problem.is_open:
            return
        if self.num_under_way >= self._config.max_beside:
            self._count(problem.asked, lineup.candidate, skipped=1)
            return
        task = asyncio.create_task(self._compare(problem, lineup, lineup.candidate, answered), name="beside")
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _compare(self, problem: Problem, lineup: Lineup, candidate: Adapter, answered: _Said) -> None:
        other = await self._said(problem, lineup.beside(problem.asked.request_id))
        is_canary = lineup.is_canary(problem.asked.request_id)
        tried, present = (answered, other) if is_canary else (other, answered)
        self._count(problem.asked, candidate, **_counts(tried, present))

    async def _said(self, problem: Problem, adapter: Adapter | None) -> _Said:
        started_s = time.monotonic()
        try:
            async with asyncio.timeout(self._config.beside_timeout_s):
                found = await self._with(problem, adapter, Deadline.after(self._config.beside_timeout_s))
        except (StagemeshError, TimeoutError) as error:
            log.warning("not compared", adapter=adapter.name if adapter else "", problem=str(error))
            return _Said(findings=None)
        except Exception:  # a fault of the candidate's is its own, and counted
            log.exception("the adapter beside the answering one failed")
            return _Said(findings=None)
        return _Said(findings=found, ms=round(1e3 * (time.monotonic() - started_s)))

    def _count(self, asked: Asked, candidate: Adapter, **counts: int) -> None:
        own = self._in_use().lineups.get(asked.tenant_id)
        is_own = own is not None and own.candidate == candidate
        self._tallies.add(asked.tenant_id if is_own else SHARED, candidate.revision, **counts)


def _counts(tried: _Said, present: _Said) -> dict[str, int]:
    """By the names of `Tally`."""
    if tried.findings is None or present.findings is None:
        return {"candidate_failed": tried.findings is None, "present_failed": present.findings is None}
    one, other = _proposed(tried.findings), _proposed(present.findings)
    return {
        "compared": 1,
        "same": one == other,
        "candidate_proposals": len(one),
        "present_proposals": len(other),
        "equal_proposals": len(one.items() & other.items()),
        "candidate_ms": tried.ms,
        "present_ms": present.ms,
    }


def _proposed(findings: Findings) -> dict[str, Any]:
    """Value by pointer, as JSON."""
    return {it.pointer: "" if it.value is ABSENT else dump(it.value) for it in findings.proposals}
