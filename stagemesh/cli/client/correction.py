"""Correcting texts: by the mesh, or in child processes of this command."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc

from stagemesh.api.corrector.v1 import corrector_pb2
from stagemesh.api.gateway.v1 import quality_pb2, quality_pb2_grpc
from stagemesh.cli.client.connection import Connection, explain
from stagemesh.cli.exits import CommandError, Exit
from stagemesh.cli.verdict_view import Outcome, errors_of
from stagemesh.runtime.errors import InvalidRequest, StagemeshError

MAX_WORKERS = 8
WHOLE = frozenset({"extract", "syntax"})
"""Steps of changes between texts; others lead from JSON to JSON."""

Correct = Callable[[quality_pb2.CorrectRequest], Awaitable[Outcome]]
"""Raises StagemeshError."""


def correct(connection: Connection, request: quality_pb2.CorrectRequest, *, local: bool) -> Outcome:
    """Raises CommandError."""

    async def call() -> Outcome:
        async with correcting(connection, num_workers=1, local=local) as correct_one:
            return await correct_one(request)

    try:
        return asyncio.run(call())
    except InvalidRequest as error:
        if local:
            raise CommandError(f"{error.reason}: {error.message} ({error.field})", Exit.USAGE) from None
        raise explain(connection, error) from None
    except StagemeshError as error:
        raise explain(connection, error) from None


def num_local_workers() -> int:
    return min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, MAX_WORKERS)


@asynccontextmanager
async def correcting(connection: Connection, *, num_workers: int, local: bool) -> AsyncIterator[Correct]:
    """What corrects one text after the other, or several at once."""
    if local:
        async with _here(num_workers) as here:
            yield here
        return
    async with connection.channel() as channel:
        stub = quality_pb2_grpc.QualityServiceStub(channel)

        async def there(request: quality_pb2.CorrectRequest) -> Outcome:
            started_s = time.perf_counter()
            try:
                answer = await stub.Correct(request, timeout=connection.timeout_s, metadata=connection.metadata)
            except grpc.aio.AioRpcError as error:
                raise connection.typed(error) from None
            return of_correction(answer.correction, (time.perf_counter() - started_s) * 1000)

        yield there


@asynccontextmanager
async def _here(num_workers: int) -> AsyncIterator[Correct]:
    from services.corrector.config import CorrectorConfig
    from services.corrector.corrections import response_of
    from services.corrector.repairer import Repairer
    from stagemesh.validation.checker import Checker
    from stagemesh.validation.messages import constraint_of, demands_of
    from stagemesh.validation.sandbox import Sandbox

    config = CorrectorConfig(num_workers=num_workers, repair_timeout_ms=30_000.0)
    sandbox = Sandbox("services.corrector.worker", config.sandbox())
    repairer = Repairer(Checker(sandbox, config.checker()))

    async def here(request: quality_pb2.CorrectRequest) -> Outcome:
        if any(anchor.set for anchor in request.anchors):
            raise InvalidRequest(
                "INVALID_ANCHOR", "stored sets are the mesh's; with --local give keys", field="anchors"
            )
        constraint, demands = constraint_of(request.constraint), demands_of(request)
        started_s = time.perf_counter()
        threshold = request.min_confidence or config.min_confidence
        repair = await repairer.repair(request.text, constraint, demands, request.source, threshold)
        return of_correction(response_of(repair), (time.perf_counter() - started_s) * 1000)

    try:
        await sandbox.warm_up()
        yield here
    finally:
        await sandbox.close()


def of_correction(correction: corrector_pb2.CorrectResponse, ms: float) -> Outcome:
    return Outcome(
        valid=correction.valid,
        certain=correction.certain,
        text=correction.text,
        value=correction.value,
        errors=errors_of(correction.verdict),
        changes=[_change(change) for change in correction.changes],
        passes=correction.usage.forwards,
        ms=ms,
    )


def _change(change: corrector_pb2.Change) -> dict[str, Any]:
    """`from` and `to` as JSON values, null for absent; as texts where the whole text was no JSON."""
    before, after = getattr(change, "from"), change.to
    is_text = change.pointer == "" and change.step in WHOLE
    return {
        "pointer": change.pointer,
        "from": before if is_text else _value(before),
        "to": after if is_text else _value(after),
        "reason": change.reason,
        "confidence": round(change.confidence, 4),
        "step": change.step,
        "applied": not change.withheld,
    }


def _value(text: str) -> Any:
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text
