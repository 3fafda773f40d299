"""The operator's changes of the adapters in use: a candidate, its share, its promotion, and the way back.

Engines are changed before the record names what they hold, and adapters stay loaded until no process asks for them, so
no request meets an adapter that is gone.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from services.corrector.adapters.in_use import SHARED, Adapter
from services.corrector.adapters.judged import Judged
from services.corrector.adapters.origin import read_origin
from services.corrector.adapters.record import Entry, Record, no_candidate
from services.corrector.adapters.store import AdapterStore, Change
from services.corrector.adapters.tally import Tally
from stagemesh.runtime.errors import Forbidden, InvalidRequest, NotFound, Precondition

CALIBRATION = "calibration.json"


@dataclass(frozen=True)
class Held:
    """What the engines hold under a name."""

    generation: int
    revision: str


class Engines(Protocol):
    async def load(self, name: str, folder: str) -> Held:
        """On all of them, under one generation. Raises for any that cannot."""


@dataclass(frozen=True, kw_only=True)
class Needs:
    """Of a promotion."""

    fields: int = 100
    """Held-out fields with rivals."""
    compared: int = 50
    """Live corrections on which both adapters were asked."""
    answered: int = 20
    """Live corrections that the candidate answered."""


class Operations:
    """Of one operator. Every method raises Unavailable without the ledger and Precondition when another change came
    first; then nothing is changed."""

    def __init__(self, store: AdapterStore, engines: Engines, by: str) -> None:
        self._store, self._engines, self._by = store, engines, by

    async def candidate(self, scope: str, folder: Path, judged: Judged) -> Record:
        """Have the adapter in `folder` run beside the present one. Raises Forbidden for another tenant's adapter."""
        trained_ms = check_origin(scope, folder)
        record = await self._store.record(scope)
        entry = await self._held(record.free_name, str(folder), read_calibration(folder))
        entry = replace(entry, trained_ms=trained_ms, judged=judged)
        await self._store.forget_tally(scope, entry.adapter.revision)
        detail = f"{_told(entry)}, {judged.candidate_right} of {judged.fields} fields right"
        return await self._put(record.with_candidate(entry), "candidate", f"{detail}, before {judged.present_right}")

    async def canary(self, scope: str, share: float) -> Record:
        """Let the candidate answer a share of the live corrections. Raises NotFound without one."""
        record = await self._store.record(scope)
        if record.candidate is None:
            raise no_candidate()
        detail = f"{_told(record.candidate)} answers {share:.2%}"
        return await self._put(replace(record, share=share), "canary", detail)

    async def promote(self, scope: str, needs: Needs, *, stale: int, force: bool) -> Record:
        """Let the candidate answer all. `stale`: erased cases that it may have learnt.

        Raises NotFound without a candidate; Precondition with the numbers where it does not count as better, unless
        forced.
        """
        record = await self._store.record(scope)
        problems = await self.problems(record, needs, stale=stale)
        if problems and not force:
            raise Precondition("CANDIDATE_NOT_BETTER", "; ".join(problems))
        promoted = record.promoted(_now_ms())
        assert promoted.present is not None
        return await self._put(promoted, "promote", f"{_told(promoted.present)}, {_why(problems)}")

    async def problems(self, record: Record, needs: Needs, *, stale: int) -> list[str]:
        """Why the candidate is not to be promoted. Raises NotFound without one."""
        candidate = record.candidate
        if candidate is None:
            raise no_candidate()
        tally = await self._store.tally(record.scope, candidate.adapter.revision)
        return [
            *(
                candidate.judged.problems(needs.fields)
                if candidate.judged
                else ["it was not compared on held-out cases"]
            ),
            *tally.problems(needs.compared, needs.answered),
            *([stale_words(stale)] if stale else []),
        ]

    async def rollback(self, scope: str) -> tuple[Record, str]:
        """Take the last step back: a candidate goes, or what was present before answers again; gives which.

        Raises NotFound where there is neither.
        """
        record = await self._store.record(scope)
        if record.candidate is not None:
            detail = _told(record.candidate)
            return await self._put(record.without_candidate(), "withdraw", detail), "withdraw"
        if record.present is None:
            raise NotFound("NO_ADAPTER_IN_USE", "no adapter is in use here, and none is tried")
        before = record.previous[0] if record.previous else None
        if before is not None:
            held = await self._held(record.free_name, before.folder, before.adapter.calibration)
            before = replace(before, adapter=held.adapter, since_ms=_now_ms())
        now = _told(before) if before else "no adapter"
        detail = f"{now} in place of {_told(record.present)}"
        return await self._put(record.rolled_back(before), "rollback", detail), "rollback"

    async def tally(self, record: Record) -> Tally | None:
        """Of the candidate; None without one."""
        if record.candidate is None:
            return None
        return await self._store.tally(record.scope, record.candidate.adapter.revision)

    async def _held(self, name: str, folder: str, calibration: Mapping[str, Any]) -> Entry:
        held = await self._engines.load(name, folder)
        adapter = Adapter(name=name, generation=held.generation, revision=held.revision, calibration=calibration)
        return Entry(adapter=adapter, folder=folder, since_ms=_now_ms())

    async def _put(self, record: Record, what: str, detail: str) -> Record:
        return await self._store.put(record, Change(what=what, scope=record.scope, by=self._by, detail=detail))


def check_origin(scope: str, folder: Path) -> int:
    """When an adapter was trained that may be used for `scope`. Raises Forbidden: a tenant's texts never leave it."""
    origin = read_origin(folder)
    if origin.tenant_id and origin.tenant_id != scope:
        whose = "all tenants" if scope == SHARED else scope
        raise Forbidden(
            "ADAPTER_OF_TENANT", f"{folder} was trained on corrections of {origin.tenant_id} and cannot serve {whose}"
        )
    return origin.trained_ms if origin.tenant_id else 0


def read_calibration(folder: Path) -> dict[str, Any]:
    """Empty without a file. Raises InvalidRequest."""
    try:
        data = json.loads((folder / CALIBRATION).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise InvalidRequest("INVALID_CALIBRATION", f"{folder / CALIBRATION} cannot be read: {error}") from None
    if not isinstance(data, dict):
        raise InvalidRequest("INVALID_CALIBRATION", f"{folder / CALIBRATION} must hold an object")
    return data


def stale_words(num_erased: int) -> str:
    return f"{num_erased} of the tenant's corrections were erased since it was trained, and may be in it: train it anew"


def _told(entry: Entry) -> str:
    return f"{entry.adapter.name} generation {entry.adapter.generation} ({entry.adapter.revision[:12]})"


def _why(problems: list[str]) -> str:
    return f"forced although {'; '.join(problems)}" if problems else "better by the rule"


def _now_ms() -> int:
    return round(time.time() * 1000)
