"""Whether every request reaches its end, once, while everything that can break breaks.

python benchmarks/chaos.py [--parts faults,streams,breaker,hangs,kills] [--requests 500] [--streams 32] [--minutes 10]
                           [--quick] [--busy] [--json]

- `faults`: requests of every kind, each stage of each failing once with 30 % chance (error, delay, hang, numbers that
  are not finite, no memory), and 5 % of all engine steps besides. `complete` and `degraded` within the deadline;
  `deferred_delivered` later; `lost` have no outcome; `doubled` have two, or tokens twice.
- `streams`: kill -9 of one of two engines with streams running; each must end with the tokens of an undisturbed run.
- `breaker`: one of two engines stands still (SIGSTOP); from then until its last stream goes on elsewhere, and whether
  the engine is taken back by itself afterwards.
- `hangs`: cache, validator and corrector stand still, one after the other: how long requests take usually, when they
  meet it first, and later, and until it is taken back.
- `kills`: kill -9 of the broker, the ledger Redis, the worker, the gateway and the others, in random order under load.

The mesh is one of its own, on this machine, with the default model.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import signal
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks.chaos_client import Caller, Seen
from benchmarks.chaos_hangs import measure_hangs
from benchmarks.chaos_requests import RATE, Planned, planned_requests, sampling_of, step_faults
from benchmarks.lock import benchmark_lock, no_lock
from benchmarks.machine import describe_machine
from benchmarks.own_mesh import OwnMesh
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2

MODEL = "smollm2-135m-instruct"
STEP_SHARE = 0.05
SEED = 6
DEADLINE_S = 60.0
PATIENCE_S = 180.0
AT_ONCE = 8
VICTIMS = (
    *("kafka", "valkey", "worker", "gateway", "tokenizer", "engine-1", "engine-2"),
    *("cache", "validator", "corrector"),
)
ANSWERED = (common_pb2.OUTCOME_COMPLETE, common_pb2.OUTCOME_DEGRADED)
PARTS = ("faults", "streams", "breaker", "hangs", "kills")
KEYS = (
    *("fault_rate", "requests", "complete", "degraded", "deferred_delivered", "lost", "doubled", "success_percent"),
    *("migrated_streams", "migration_pause_p99_ms", "breaker_seconds"),
)
"""Of the object at the end; those of parts that did not run are null."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@contextmanager
def mesh_with(engines: int, faults: Sequence[dict[str, object]] = ()) -> Iterator[OwnMesh]:
    config = {
        "serve": {MODEL: engines},
        "faults": list(faults),
        "engine": {"threads": 1, "healing": {"step_timeout_s": 1.0}},
        "gateway": {"default_timeout_s": DEADLINE_S, "lease_s": 3.0, "republish_after_s": 5.0},
    }
    with tempfile.TemporaryDirectory(prefix="stagemesh-chaos-") as folder:
        mesh = OwnMesh(Path(folder) / "mesh")
        mesh.up(config)
        try:
            yield mesh
        finally:
            mesh.down()


def summary(seen: Sequence[Seen]) -> dict[str, Any]:
    """The counts of one part."""
    counts = Counter(one.outcome for one in seen)
    complete, degraded = counts[common_pb2.OUTCOME_COMPLETE], counts[common_pb2.OUTCOME_DEGRADED]
    late = sum(one.was_deferred and one.outcome in ANSWERED for one in seen)
    lost = sum(not one.outcomes and (one.accepted or one.was_deferred) for one in seen)
    doubled = sum(is_doubled(one) for one in seen)
    in_time = sum(one.outcome in ANSWERED and not one.was_deferred and one.seconds <= DEADLINE_S for one in seen)
    return {
        "requests": len(seen),
        "complete": complete,
        "degraded": degraded,
        "deferred_delivered": late,
        "refused": counts[common_pb2.OUTCOME_REJECTED],
        "never_accepted": sum(not one.outcomes and not (one.accepted or one.was_deferred) for one in seen),
        "other": sum(counts.values()) - complete - degraded - counts[common_pb2.OUTCOME_REJECTED] - counts[0],
        "lost": lost,
        "doubled": doubled,
        "success_percent": round(100 * in_time / max(1, len(seen)), 2),
    }


def is_doubled(one: Seen) -> bool:
    """Whether its caller was told two outcomes, two texts, or tokens twice."""
    return len(set(one.outcomes)) > 1 or len(one.texts) > 1 or one.gaps > 0


async def all_of(caller: Caller, planned: Sequence[Planned], at_once: int = AT_ONCE) -> list[Seen]:
    """Ask all, so many at once."""
    places = asyncio.Semaphore(at_once)
    done = 0

    async def one(plan: Planned) -> Seen:
        nonlocal done
        async with places:
            seen = await caller.ask(plan.request, plan.faults)
        done += 1
        if done % 25 == 0:
            say(f"  {done} of {len(planned)}")
        return seen

    return list(await asyncio.gather(*map(one, planned)))


async def check_again(caller: Caller, seen: Sequence[Seen]) -> None:
    """Ask the ledger for each outcome that a caller was told: it must be the same, with the same text."""
    for one in seen:
        if one.outcome in ANSWERED and (final := await caller.outcome_again(one.request_id)) is not None:
            one.outcomes.append(final.outcome)
            one.texts.update(choice.text for choice in final.choices)


def run_faults(count: int) -> dict[str, Any]:
    """Every stage fails; nothing is killed."""
    with mesh_with(1, step_faults(STEP_SHARE)) as mesh:
        caller = Caller(mesh.grpc_address, DEADLINE_S, PATIENCE_S)
        planned = list(planned_requests(count, SEED))

        async def measure() -> list[Seen]:
            await all_of(caller, with_ids(list(planned_requests(3, SEED + 1, rate=0.0))))  # all parts have worked once
            seen = await all_of(caller, planned)
            await check_again(caller, seen)
            return seen

        seen = asyncio.run(measure())
    result = {"fault_rate": RATE, "step_fault_rate": STEP_SHARE, **summary(seen)}
    stages = Counter(
        common_pb2.Stage.Name(report.stage).removeprefix("STAGE_").lower()
        for one in seen
        for report in one.stages
        if report.status == common_pb2.STAGE_STATUS_DEGRADED
    )
    return {**result, "degraded_stages": dict(stages), "unhappy": unhappy(seen)}


def unhappy(seen: Sequence[Seen]) -> list[dict[str, Any]]:
    """Requests without an answer, for a reader."""
    return [
        {"id": one.request_id, "outcome": common_pb2.Outcome.Name(one.outcome), "errors": one.errors[-3:]}  # type: ignore[arg-type]  # a number of the enum
        for one in seen
        if one.outcome not in ANSWERED
    ][:20]


def stream_requests(count: int, num_output: int) -> list[Planned]:
    """Greedy, seeded and penalized streams, every fifth one in a grammar; IDs of their own for each run."""
    planned = []
    for number in range(count):
        text = f"Tell me a long story about number {number}."
        request = gateway_pb2.InferenceRequest(
            chat=common_pb2.ChatMessages(messages=[common_pb2.ChatMessage(role="user", content=text)]),
            sampling=sampling_of(number, num_output),
        )
        request.sampling.ignore_eos = number % 5 != 4
        if number % 5 == 3:
            request.sampling.logprobs = 2
        if number % 5 == 4:
            request.constraint.regex = "[a-d ]{40,60}"
        planned.append(Planned(request, ""))
    return planned


def run_streams(count: int, num_output: int) -> dict[str, Any]:
    """kill -9 of one of two engines with all streams running."""
    with mesh_with(2) as mesh:
        caller = Caller(mesh.grpc_address, 300.0, PATIENCE_S)

        async def measure() -> tuple[list[Seen], list[Seen], float]:
            undisturbed = await all_of(caller, with_ids(stream_requests(count, num_output)), count)
            running = asyncio.create_task(all_of(caller, with_ids(stream_requests(count, num_output)), count))
            await asyncio.sleep(max(1.0, 0.4 * max(one.seconds for one in undisturbed)))
            killed_s = time.monotonic()
            os.kill(mesh.pid("engine-1"), signal.SIGKILL)
            return undisturbed, await running, killed_s

        undisturbed, disturbed, killed_s = asyncio.run(measure())
    equal = sum(is_equal(a, b) for a, b in zip(undisturbed, disturbed, strict=True))
    pauses = sorted(pause_ms(one, killed_s) for one in disturbed if one.was_moved)
    return {
        "streams": count,
        "streams_equal": equal,
        "migrated_streams": len(pauses),
        "migration_pause_p99_ms": round(pauses[min(len(pauses) - 1, int(0.99 * len(pauses)))], 1) if pauses else None,
        "streams_lost": sum(one.outcome not in ANSWERED for one in disturbed),
        "streams_doubled": sum(is_doubled(one) for one in disturbed),
    }


def is_equal(a: Seen, b: Seen) -> bool:
    """Whether two callers got the same tokens with the same log-probabilities, and any at all."""
    return bool(a.tokens) and (a.tokens, a.logprobs) == (b.tokens, b.logprobs)


def with_ids(planned: Sequence[Planned]) -> list[Planned]:
    """The same requests under new IDs."""
    for plan in planned:
        plan.request.request_id = str(uuid.uuid4())
    return list(planned)


def pause_ms(one: Seen, after_s: float) -> float:
    """The longest time between two deltas, of which the second came after `after_s`."""
    times = one.delta_times_s
    return 1e3 * max((later - earlier for earlier, later in itertools.pairwise(times) if later > after_s), default=0.0)


def run_breaker(count: int, num_output: int) -> dict[str, Any]:
    """An engine that stands still: how long until its last stream goes on elsewhere, and is it taken back."""
    with mesh_with(2) as mesh:
        caller = Caller(mesh.grpc_address, 300.0, PATIENCE_S)

        async def measure() -> tuple[list[Seen], float]:
            running = asyncio.create_task(all_of(caller, with_ids(stream_requests(count, num_output)), count))
            await asyncio.sleep(3.0)
            stopped_s = time.monotonic()
            pid = mesh.pid("engine-1")
            os.kill(pid, signal.SIGSTOP)
            try:
                seen = await running
            finally:
                with suppress(ProcessLookupError):  # streams that take long: the supervisor has restarted it by then
                    os.kill(pid, signal.SIGCONT)
            return seen, stopped_s

        seen, stopped_s = asyncio.run(measure())
        pauses = [pause_ms(one, stopped_s) for one in seen if one.was_moved]
        taken_back_s = seconds_until_used(mesh, caller, "engine-1", 30.0)
    return {
        "breaker_seconds": round(max(pauses) / 1e3, 2) if pauses else None,
        "breaker_streams_moved": len(pauses),
        "breaker_lost": sum(one.outcome not in ANSWERED for one in seen),
        "taken_back_seconds": taken_back_s,
    }


def seconds_until_used(mesh: OwnMesh, caller: Caller, name: str, at_most_s: float) -> float | None:
    """How long until a request is answered by the process `name` again."""

    async def look() -> float | None:
        started_s = time.monotonic()
        while time.monotonic() - started_s < at_most_s:
            seen = await all_of(caller, with_ids(stream_requests(4, 4)), 4)
            if any(report.instance == name for one in seen for report in one.stages):
                return round(time.monotonic() - started_s, 2)
        return None

    return asyncio.run(look())


def run_kills(minutes: float, seed: int = SEED) -> dict[str, Any]:
    """Processes end in random order while requests keep coming."""
    with mesh_with(2) as mesh:
        caller = Caller(mesh.grpc_address, DEADLINE_S, PATIENCE_S)
        assert all(map(mesh.pid, VICTIMS)), "a victim is no process of this mesh"
        killed: list[str] = []

        async def kill(until_s: float) -> None:
            rng, order = random.Random(seed), list[str]()
            while time.monotonic() < until_s:
                order = order or rng.sample(VICTIMS, len(VICTIMS))
                victim = order.pop()
                if pid := mesh.pid(victim):
                    os.kill(pid, signal.SIGKILL)
                    killed.append(victim)
                    say(f"  killed {victim}")
                await asyncio.sleep(rng.uniform(2, 6))

        async def keep_asking(number: int, until_s: float, seen: list[Seen]) -> None:
            plans = planned_requests(100_000, seed * 1_000 + number, rate=0.0)
            while time.monotonic() < until_s:
                seen.append(await caller.ask(next(plans).request))

        async def measure() -> list[Seen]:
            seen: list[Seen] = []
            until_s = time.monotonic() + 60 * minutes
            await asyncio.gather(kill(until_s), *(keep_asking(n, until_s, seen) for n in range(AT_ONCE)))
            mesh.wait_ready(120.0)
            await check_again(caller, seen)
            return seen

        seen = asyncio.run(measure())
    found = summary(seen)
    return {
        "kill_minutes": minutes,
        "killed": len(killed),
        **{f"kill_{name}": found[name] for name in ("requests", "complete", "degraded", "lost", "doubled", "refused")},
        "kill_never_accepted": found["never_accepted"],
        "kill_unhappy": unhappy(seen),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(PARTS), help="which of them, with commas between")
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--streams", type=int, default=32)
    parser.add_argument("--minutes", type=float, default=10.0, help="of killing processes")
    parser.add_argument("--quick", action="store_true", help="a form of two minutes")
    parser.add_argument("--busy", action="store_true", help="without the lock, beside other work")
    parser.add_argument("--json", action="store_true", help="one JSON object at the end")
    options = parser.parse_args(arguments)
    if options.quick:
        options.requests, options.streams, options.minutes = 24, 4, 0.3
    results: dict[str, Any] = dict.fromkeys(KEYS)
    with no_lock() if options.busy else benchmark_lock():
        for part in options.parts.split(","):
            say(part)
            match part:
                case "faults":
                    results |= run_faults(options.requests)
                case "streams":
                    results |= run_streams(options.streams, 24 if options.quick else 96)
                case "breaker":
                    results |= run_breaker(options.streams, 48 if options.quick else 160)
                case "hangs":
                    with mesh_with(1) as mesh:
                        results |= measure_hangs(mesh, Caller(mesh.grpc_address, DEADLINE_S, PATIENCE_S))
                case "kills":
                    results |= run_kills(options.minutes)
                case _:
                    parser.error(f"no part {part!r}; parts: {', '.join(PARTS)}")
    results["machine"] = describe_machine()
    print(json.dumps(results, indent=None if options.json else 1))
    return int(any(results.get(key) for key in ("lost", "doubled", "streams_lost", "kill_lost", "kill_doubled")))


if __name__ == "__main__":
    raise SystemExit(main())
