"""A part with a fallback stands still (SIGSTOP): how long those wait who meet it first, and until it is taken back."""

from __future__ import annotations

import asyncio
import os
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from benchmarks.chaos_client import Caller, Seen
from benchmarks.chaos_requests import planned_requests
from benchmarks.own_mesh import OwnMesh
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2

PARTS = {
    "cache": common_pb2.STAGE_CACHE,
    "validator": common_pb2.STAGE_VALIDATE,
    "corrector": common_pb2.STAGE_CORRECT,
}
AT_ONCE = 4
SEED = 8
TAKEN_BACK_WITHIN_S = 30.0


def measure_hangs(mesh: OwnMesh, caller: Caller) -> dict[str, Any]:
    """By part: how long requests take usually, when they meet it first, and later; and until it works again."""
    return {f"{name}_hang": asyncio.run(_measure(mesh, caller, name)) for name in PARTS}


async def _measure(mesh: OwnMesh, caller: Caller, name: str) -> dict[str, Any]:
    await _ask(caller)
    usual_s = max(one.seconds for one in await _ask(caller))
    with _standing_still(mesh.pid(name)):
        first, later = await _ask(caller), await _ask(caller)
    going_s = time.monotonic()
    while any(_is_missing(one, name) for one in await _ask(caller)):
        if time.monotonic() - going_s > TAKEN_BACK_WITHIN_S:
            break
    return {
        "usual_seconds": round(usual_s, 2),
        "first_seconds": round(max(one.seconds for one in first), 2),
        "later_seconds": round(max(one.seconds for one in later), 2),
        "answered": sum(bool(one.texts) for one in (*first, *later)),
        "asked": len(first) + len(later),
        "did_without": sum(_is_missing(one, name) for one in (*first, *later)),
        "taken_back_seconds": round(time.monotonic() - going_s, 2),
    }


async def _ask(caller: Caller) -> list[Seen]:
    """Requests whose answers are validated and corrected, all at once."""
    return list(await asyncio.gather(*(caller.ask(request) for request in _requests())))


def _requests() -> Iterator[gateway_pb2.InferenceRequest]:
    wanted = [plan.request for plan in planned_requests(3 * AT_ONCE, SEED, rate=0.0) if plan.request.anchors]
    for request in wanted:
        request.request_id = str(uuid.uuid4())
        yield request


def _is_missing(one: Seen, name: str) -> bool:
    """Whether an answer had to do without the part."""
    missing = {f"{name.upper()}_UNAVAILABLE", f"{name.upper()}_TOO_SLOW"}
    return any(report.stage == PARTS[name] and report.reason in missing for report in one.stages)


@contextmanager
def _standing_still(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):  # the supervisor has ended it by then
            os.kill(pid, signal.SIGCONT)
