"""Session hit ratio on users that no log knows, before and after `stagemesh cache warm`, through a whole mesh.

python benchmarks/session_hits.py [--json] [--seed 1] [--sessions 3] [--users 40] [--busy]

**Session hit ratio**: the share of requests whose prompt's reusable prefix was found stored. The reusable prefix is all
that could have been known before the request came, in whole pages of 16 tokens: on a later turn, the conversation so
far; on a first turn, its whole opening. (One token of a prompt is always computed.) So a first turn in words that
nobody used before is a miss by definition, although its system message is found. Both numbers are the mesh's own: what
was found is the engine's `KvReport`, and how much the session had stored is in the same record (`stagemesh cache
explain`).

Conversations come from `benchmarks/dialogues.py`. Four users of five are in the log; the first conversations of the
others are held twice, by a tenant without a log and by one for which the log was warmed, turn after turn.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import grpc

from benchmarks.dialogues import Dialogue, log_text, make_dialogues, split
from benchmarks.lock import benchmark_lock, no_lock
from benchmarks.own_mesh import OwnMesh
from stagemesh.api.cache.v1 import cache_pb2, cache_pb2_grpc
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.kv_keys import PAGE_TOKENS

UNSEEN_SHARE = 0.2
ANSWER_TOKENS = 16
REPORT_WAIT_S = 20.0
PATIENT = {"cache": {"redis_budget_ms": 1_000, "session_budget_ms": 2_000, "kv": {"lookup_budget_ms": 1_000}}}
"""Nothing is timed here: a busy machine must not turn finds into misses."""
BEFORE, AFTER = "unwarmed", "warmed"


@dataclass(frozen=True)
class Request:
    request_id: str
    is_first: bool


@dataclass(frozen=True)
class Tally:
    requests: int
    hits: int
    first_turns: int
    first_hits: int
    misses: dict[str, int]
    """Of the requests that missed, by the cause that the mesh names."""

    @property
    def ratio(self) -> float:
        return self.hits / self.requests


def reusable_tokens(use: cache_pb2.CacheUse) -> int:
    """Of a request's prompt, in whole pages; at least one token of a prompt is computed."""
    known = use.session_tokens or use.prompt_tokens
    return max(0, min(known, use.prompt_tokens) - 1) // PAGE_TOKENS * PAGE_TOKENS


def is_hit(use: cache_pb2.CacheUse) -> bool:
    return use.kv.pool_tokens + use.kv.host_tokens + use.kv.store_tokens >= reusable_tokens(use)


class Mesh:
    """The `stagemesh` command and the services of one mesh."""

    def __init__(self, folder: Path) -> None:
        self._own = OwnMesh(folder)
        self._state = folder / "state"
        self._keys: dict[str, str] = {}

    def up(self) -> None:
        self._own.up(PATIENT)

    def down(self) -> None:
        self._own.down()

    def command(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "stagemesh.cli.main", *arguments, "--state", str(self._state)]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

    def make_tenant(self, tenant_id: str) -> None:
        self._keys[tenant_id] = self.command("tenant", "create", tenant_id).split()[0]

    def hold(self, tenant_id: str, dialogues: Sequence[Dialogue]) -> Iterator[Request]:
        """The conversations one after another, every turn a request of its session."""
        metadata = (("authorization", f"Bearer {self._keys[tenant_id]}"),)
        with self._own.gateway() as stub:
            for dialogue in dialogues:
                for number, turn in enumerate(dialogue.turns):
                    request = _request(dialogue, turn.q)
                    answer = stub.Complete(gateway_pb2.CompleteRequest(request=request), metadata=metadata, timeout=120)
                    _check(answer.final)
                    yield Request(answer.final.request_id, is_first=number == 0)

    def uses(self, tenant_id: str, requests: Sequence[Request]) -> list[cache_pb2.CacheUse]:
        """What the cache service remembers of each. Raises SystemExit where it remembers one not."""
        record = json.loads((self._state / "mesh.json").read_text())
        address = next(process["address"] for process in record["processes"] if process["name"] == "cache")
        metadata = (("x-mesh-token", record["token"]),)
        with grpc.insecure_channel(address) as channel:
            stub = cache_pb2_grpc.CacheServiceStub(channel)
            return [_explain(stub, metadata, tenant_id, request.request_id) for request in requests]


def _request(dialogue: Dialogue, question: str) -> gateway_pb2.InferenceRequest:
    return gateway_pb2.InferenceRequest(
        chat=common_pb2.ChatMessages(messages=[common_pb2.ChatMessage(role="user", content=question)]),
        session_id=dialogue.session_id,
        user_id=dialogue.user_id,
        sampling=common_pb2.SamplingParams(temperature=0, max_tokens=ANSWER_TOKENS, seed=1),
    )


def _check(final: gateway_pb2.Final) -> None:
    if final.outcome != common_pb2.OUTCOME_COMPLETE:
        raise SystemExit(f"an answer is not complete: {final}")


def _explain(
    stub: cache_pb2_grpc.CacheServiceStub, metadata: tuple[tuple[str, str], ...], tenant_id: str, request_id: str
) -> cache_pb2.CacheUse:
    """A report comes shortly after its answer."""
    asked = cache_pb2.ExplainRequest(tenant_id=tenant_id, request_id=request_id)
    give_up_at_s = time.monotonic() + REPORT_WAIT_S
    while True:
        try:
            answer: cache_pb2.ExplainResponse = stub.Explain(asked, metadata=metadata, timeout=10)
            return answer.use
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.NOT_FOUND or time.monotonic() > give_up_at_s:
                raise SystemExit(f"no report of {request_id}: {error.details()}") from None
        time.sleep(0.1)


def measure(mesh: Mesh, tenant_id: str, dialogues: Sequence[Dialogue]) -> Tally:
    requests, total = [], sum(len(dialogue.turns) for dialogue in dialogues)
    for request in mesh.hold(tenant_id, dialogues):
        requests.append(request)
        if len(requests) % 25 == 0 or len(requests) == total:
            say(f"  {tenant_id}: {len(requests)} of {total} requests")
    return tally(requests, mesh.uses(tenant_id, requests))


def tally(requests: Sequence[Request], uses: Sequence[cache_pb2.CacheUse]) -> Tally:
    hits = [is_hit(use) for use in uses]
    first = [hit for request, hit in zip(requests, hits, strict=True) if request.is_first]
    missed = [use for use, hit in zip(uses, hits, strict=True) if not hit]
    causes = Counter(use.kv.miss_cause or use.lookup_miss or "OTHER" for use in missed)
    return Tally(len(requests), sum(hits), len(first), sum(first), dict(causes))


def first_sessions(dialogues: Sequence[Dialogue], max_users: int, max_sessions: int) -> list[Dialogue]:
    """Of each user, in order of time."""
    users = sorted({dialogue.user_id for dialogue in dialogues})[:max_users]
    held: Counter[str] = Counter()
    found = []
    for dialogue in dialogues:
        held[dialogue.user_id] += 1
        if dialogue.user_id in users and held[dialogue.user_id] <= max_sessions:
            found.append(dialogue)
    return found


def run(seed: int, max_users: int, max_sessions: int) -> dict[str, Any]:
    logged, unseen = split(make_dialogues(seed), seed, UNSEEN_SHARE)
    asked = first_sessions(unseen, max_users, max_sessions)
    with TemporaryDirectory() as name:
        log, mesh = Path(name) / "log.jsonl", Mesh(Path(name) / "mesh")
        log.write_text(log_text(logged), encoding="utf-8")
        mesh.up()
        try:
            for tenant_id in (BEFORE, AFTER):
                mesh.make_tenant(tenant_id)
            before = measure(mesh, BEFORE, asked)
            say(f"warming with {len(logged)} conversations")
            warmed = json.loads(mesh.command("cache", "warm", str(log), "--tenant", AFTER, "--json"))
            after = measure(mesh, AFTER, asked)
        finally:
            mesh.down()
    return {
        "before": round(before.ratio, 4),
        "after": round(after.ratio, 4),
        "tallies": {"before": vars(before), "after": vars(after)},
        "warm": warmed,
    }


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--users", type=int, default=40, help="unseen users [default: 40]")
    parser.add_argument("--sessions", type=int, default=3, help="first conversations of each [default: 3]")
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    parser.add_argument("--busy", action="store_true", help="do not wait for other benchmarks: nothing here is timed")
    options = parser.parse_args()
    with no_lock() if options.busy else benchmark_lock():
        result = run(options.seed, options.users, options.sessions)
    say(f"session hit ratio {result['before']:.1%} before, {result['after']:.1%} after")
    if options.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
