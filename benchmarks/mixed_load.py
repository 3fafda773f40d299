"""Whether short chat requests stay fast while long prompts are computed, here and with other servers.

python benchmarks/mixed_load.py [--peers llama_cpp,vllm] [--threads 2] [--count 120] [--quick] [--busy] [--json]

Short requests (up to 128 tokens, of which the chat template is some thirty) come one after another, with pauses of up
to 100 ms: first to an idle server, then while 8 clients keep a prompt of 6,000 tokens each in flight. The same client,
prompts and order for all, over HTTP, streaming; each server on its own, with the same number of compute threads.
Stagemesh is the whole mesh behind its gateway. A peer that does not install or run here is told with its error.
`ratio` is the 99th percentile of the time to the first token under load by that of the idle server. No two prompts
begin alike, so that no cache helps. `gave_up` counts short requests that had no first token after five minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from benchmarks.cache_warmth import Prompts
from benchmarks.load_client import TIMEOUT_S, ChatServer, NoAnswer, long_prompts, one_after_another
from benchmarks.lock import benchmark_lock, no_lock
from benchmarks.machine import describe_machine
from benchmarks.own_mesh import OwnMesh
from benchmarks.peers.cache import say
from benchmarks.peers.chat_servers import llama_cpp_server, vllm_server
from benchmarks.peers.contender import PeerError

SEED = 11
SHORT_TOKENS = (8, 90)
"""Of the user's text; the template adds some thirty."""
NUM_SHORT_OUTPUT = NUM_LONG_OUTPUT = 16
CONTEXT_TOKENS = 8_192
POOL_TOKENS = 65_536
"""Room for all that is in flight."""
SETTLE_S = 3.0
"""After which the long prompts are being computed."""
GOAL = 2.5

Server = Callable[[int, int, int], AbstractContextManager[ChatServer]]
PEERS: dict[str, Server] = {"llama_cpp": llama_cpp_server, "vllm": vllm_server}


@dataclass(frozen=True, kw_only=True)
class Load:
    count: int = 120
    """Short requests in each half."""
    num_long: int = 8
    long_tokens: int = 6_000
    seconds: float = 240.0
    """For each half; what has come by then counts."""


QUICK = Load(count=6, num_long=2, long_tokens=1_000, seconds=60.0)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that so great a share of all does not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def summary(unloaded_s: Sequence[float], loaded_s: Sequence[float]) -> dict[str, float]:
    """The figures of one server, in milliseconds."""
    before, beside = percentile(unloaded_s, 0.99), percentile(loaded_s, 0.99)
    return {
        "short_ttft_p99_unloaded_ms": round(1e3 * before, 1),
        "short_ttft_p99_loaded_ms": round(1e3 * beside, 1),
        "ratio": round(beside / before, 2),
        "short_ttft_p50_unloaded_ms": round(1e3 * percentile(unloaded_s, 0.5), 1),
        "short_ttft_p50_loaded_ms": round(1e3 * percentile(loaded_s, 0.5), 1),
        "samples": len(loaded_s),
        "gave_up": sum(taken_s == TIMEOUT_S for taken_s in loaded_s),
    }


async def measure(server: ChatServer, prompts: Prompts, load: Load) -> dict[str, float]:
    lengths = itertools.cycle(range(SHORT_TOKENS[0], SHORT_TOKENS[1] + 1, 7))
    texts = [[prompts.text(next(lengths)) for _ in range(count)] for count in (4, load.count, load.count)]
    await one_after_another(server, texts[0], NUM_SHORT_OUTPUT, within_s=load.seconds, seed=SEED)  # warms up
    unloaded_s = await one_after_another(server, texts[1], NUM_SHORT_OUTPUT, within_s=load.seconds, seed=SEED)
    make_long = lambda: prompts.text(load.long_tokens)  # noqa: E731  the one place that says how long
    async with long_prompts(server, make_long, load.num_long, NUM_LONG_OUTPUT) as long:
        await asyncio.sleep(SETTLE_S)
        loaded_s = await one_after_another(server, texts[2], NUM_SHORT_OUTPUT, within_s=load.seconds, seed=SEED)
    return summary(unloaded_s, loaded_s) | {"long_answered": len(long.ttft_s)}


@contextmanager
def stagemesh_server(threads: int) -> Iterator[ChatServer]:
    with tempfile.TemporaryDirectory() as folder:
        mesh = OwnMesh(Path(folder) / "mesh")
        mesh.up(
            {"engine": {"threads": threads, "kv_pool_tokens": POOL_TOKENS}, "gateway": {"default_timeout_s": 3600.0}}
        )
        try:
            yield ChatServer(f"{mesh.http_url}/v1", "smollm2-135m-instruct", "dev")
        finally:
            mesh.down()


def measure_peer(name: str, threads: int, prompts: Prompts, load: Load) -> dict[str, Any]:
    try:
        with PEERS[name](threads, load.num_long + 1, CONTEXT_TOKENS) as server:
            say(name, "measuring")
            return dict(asyncio.run(measure(server, prompts, load)))
    except (PeerError, NoAnswer, httpx.HTTPError) as error:
        reason = str(error) or type(error).__name__
        say(name, reason)
        return {"error": reason}


def main() -> None:
    given = parse_arguments()
    load = QUICK if given.quick else Load(count=given.count, seconds=given.seconds)
    prompts = Prompts()
    with no_lock() if given.busy else benchmark_lock():
        machine = describe_machine()
        with contextlib.ExitStack() as stack:
            server = stack.enter_context(stagemesh_server(given.threads))
            say("stagemesh", "measuring")
            ours: dict[str, Any] = dict(asyncio.run(measure(server, prompts, load)))
        peers = {name: measure_peer(name, given.threads, prompts, load) for name in given.peers}
    result = {"machine": machine, "threads": given.threads, **ours, "goal": GOAL, "peers": peers}
    for name, figures in {"stagemesh": ours, **peers}.items():
        print(name, json.dumps(figures), file=sys.stderr if given.json else sys.stdout)
    if given.json:
        print(json.dumps(result))


def parse_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=_names, default=list(PEERS), help=f"some of {','.join(PEERS)}, or nothing")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of each engine")
    parser.add_argument("--count", type=int, default=Load().count, help="short requests in each half")
    parser.add_argument("--seconds", type=float, default=Load().seconds, help="for each half at most")
    parser.add_argument("--quick", action="store_true", help="a few small requests: shows that it runs")
    parser.add_argument("--busy", action="store_true", help="do not wait for other benchmarks")
    parser.add_argument("--json", action="store_true", help="end stdout with one JSON object")
    return parser.parse_args(argv)


def _names(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    if unknown := [name for name in names if name not in PEERS]:
        raise argparse.ArgumentTypeError(f"no peer named {', '.join(unknown)}; there are {', '.join(PEERS)}")
    return names


if __name__ == "__main__":
    main()
