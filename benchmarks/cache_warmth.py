"""How much sooner a conversation goes on where its KV is stored, on the default model, through the whole mesh.

python benchmarks/cache_warmth.py [--sessions 5] [--history 2000] [--threads N] [--busy] [--json]

Three meshes side by side: one that stores nothing, one that stores pages in bfloat16, one that stores them in 8 bits.

1. In each, the first turn of every session: a text that fills the history, and an answer.
2. When all is stored, every process of every mesh is stopped and started again.
3. The next turn of 32 new tokens, of each session in each mesh in turn. Where nothing is stored the history is computed
   again: that is cold. `restart_speedup_*` is the time to its first token by that where pages were restored.
4. At once the turn after that, where pages are stored in bfloat16 and now lie in the engine's pool: `pool_speedup`.
5. Prompts that nobody has sent before, without a session, in turn with and without a store: `miss_overhead_percent`,
   and the interval in which it lies with 95 %. `benchmarks/miss_overhead.py` asks more of them.

Times are those that a client of the gateway sees, over gRPC. A figure is the median of ratios within a session, or for
misses within a prompt: what is compared was asked one right after the other.
`bf16_equal`: in every session the answer on restored bfloat16 pages was token for token the one without a cache.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.lock import benchmark_lock, no_lock
from benchmarks.machine import describe_machine
from benchmarks.median_interval import median_interval
from benchmarks.own_mesh import Answer, OwnMesh, ask, wait_until
from benchmarks.perplexity_texts import texts
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2_grpc
from stagemesh.models.pull import pull
from stagemesh.models.tokenizer_file import load_tokenizer
from stagemesh.runtime.config import read_source
from stagemesh.runtime.mesh_config import MeshConfig

KINDS: Mapping[str, Mapping[str, Any]] = {
    "cold": {"cache": {"kv": {"enabled": False}}, "engine": {"kv_store": {"enabled": False}}},
    "bf16": {"engine": {"kv_store": {"format": "bfloat16"}}},
    "8bit": {"engine": {"kv_store": {"format": "int8"}}},
}
"""What is configured; everything else is as it comes."""
PATIENT: Mapping[str, Any] = {
    "cache": {"redis_budget_ms": 1000, "session_budget_ms": 2000, "kv": {"lookup_budget_ms": 1000}},
    "gateway": {"cache_timeout_s": 2.0, "session_timeout_s": 4.0},
}
"""While the first turns are stored nothing is measured, and each must be; with --busy also afterwards."""
NEW_TOKENS, NUM_OUTPUT, PAGE_TOKENS = 32, 48, 16
MISS_TOKENS = 512
STORE_TIMEOUT_S = 60
PAUSE_S = 0.3
"""Between prompts that nobody sent before, so that what is stored of one does not run into the next."""


class Prompts:
    """Texts of a given number of tokens, no two of which begin alike."""

    def __init__(self) -> None:
        files = pull(read_source(environ={}).shared(MeshConfig))
        self._tokenizer = load_tokenizer(files).build()
        self._ids = self._tokenizer.encode(next(texts())[1]).ids
        self._num_given = 0

    def text(self, num_tokens: int) -> str:
        self._num_given += 1
        number = str(self._num_given * 7919)[::-1]  # the last digits first: they differ from text to text
        mark = f"Text {number}. "
        start = self._num_given * 997 % (len(self._ids) - num_tokens)
        length = num_tokens - len(self._tokenizer.encode(mark).ids)
        text: str = mark + self._tokenizer.decode(self._ids[start : start + length])
        return text


@dataclass
class Side:
    """One mesh and what its caller saw."""

    name: str
    mesh: OwnMesh
    stub: gateway_pb2_grpc.GatewayServiceStub
    next_turns: list[Answer] = field(default_factory=list)
    pool_turns: list[Answer] = field(default_factory=list)
    misses: list[Answer] = field(default_factory=list)

    def turn(self, session_id: str, text: str) -> Answer:
        """A turn that is stored when this returns: the session, and its pages where pages are."""
        answer = ask(self.stub, text, session_id=session_id, num_output=NUM_OUTPUT)
        num_tokens = answer.usage.prompt_tokens + answer.usage.completion_tokens
        wait_until(lambda: self._is_stored(session_id, num_tokens, answer.model), STORE_TIMEOUT_S, "storing a turn")
        return answer

    def _is_stored(self, session_id: str, num_tokens: int, model: common_pb2.ModelIdentity) -> bool:
        found = self.mesh.session(session_id, model)
        # No step has computed the last token's KV.
        wanted = (num_tokens - 1) // PAGE_TOKENS * PAGE_TOKENS
        is_kept = self.name == "cold" or found.lease.kv.stored_tokens >= wanted
        return len(found.session.token_ids) >= num_tokens and is_kept


@dataclass(frozen=True)
class Overhead:
    """Tokens that the chat template puts around a user's text, in the first turn and in later ones."""

    first: int
    later: int

    @classmethod
    def of(cls, side: Side, prompts: Prompts) -> Overhead:
        """The least that some sessions show: a later turn may take a few tokens of the answer before it anew."""
        firsts, laters = set(), set()
        for number in range(3):
            first, later = (side.turn(f"gauge-{number}", prompts.text(NEW_TOKENS)).usage for _ in range(2))
            firsts.add(first.prompt_tokens - NEW_TOKENS)
            laters.add(later.prompt_tokens - later.session_tokens - NEW_TOKENS)
        say(f"the template adds {firsts} tokens to a first turn, {laters} to a later one")
        return cls(min(firsts), min(laters))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=5)
    parser.add_argument("--history", type=int, default=2000, help="tokens before the measured turn")
    parser.add_argument("--misses", type=int, default=15, help="prompts that nobody sent before")
    parser.add_argument("--threads", type=int, help="of each engine; by default one per physical core")
    parser.add_argument("--busy", action="store_true", help="do not wait for other benchmarks")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with no_lock() if arguments.busy else benchmark_lock(), tempfile.TemporaryDirectory() as folder:
        machine = describe_machine()
        report = {"machine": machine, **measured(Path(folder), arguments)}
    print(json.dumps(report, indent=None if arguments.json else 2))


def measured(folder: Path, arguments: argparse.Namespace) -> dict[str, object]:
    meshes, prompts = {name: OwnMesh(folder / name) for name in KINDS}, Prompts()
    engine = {} if arguments.threads is None else {"engine": {"threads": arguments.threads}}
    with running(meshes, merged(PATIENT, engine)) as sides:
        say("the first turn of every session")
        overhead = Overhead.of(sides[0], prompts)
        num_text = arguments.history - NUM_OUTPUT - overhead.first
        for number in range(arguments.sessions):
            history = prompts.text(num_text)
            for side in sides:
                side.turn(f"s-{number}", history)
        say("stopping every process")
    with running(meshes, merged(PATIENT if arguments.busy else {}, engine)) as sides:
        for side in sides:
            ask(side.stub, prompts.text(MISS_TOKENS), num_output=NUM_OUTPUT)  # what a process does once
        say("the next turns")
        ask_on(sides, [prompts.text(NEW_TOKENS - overhead.later) for _ in range(2 * arguments.sessions)])
        say("prompts that nobody sent before")
        miss(sides, prompts, arguments.misses)
        say("stopping every process")
    return report_of({side.name: side for side in sides})


@contextmanager
def running(meshes: Mapping[str, OwnMesh], config: Mapping[str, Any]) -> Iterator[list[Side]]:
    with ExitStack() as stack:
        sides = []
        for name, mesh in meshes.items():
            say(f"starting a mesh: {name}")
            mesh.up(merged(config, KINDS[name]))
            stack.callback(mesh.down)
            sides.append(Side(name, mesh, stack.enter_context(mesh.gateway())))
        yield sides


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with the keys of `over` set, group by group."""
    both = dict(base)
    for key, value in over.items():
        both[key] = merged(both.get(key, {}), value) if isinstance(value, Mapping) else value
    return both


def ask_on(sides: Sequence[Side], questions: Sequence[str]) -> None:
    """Steps 3 and 4; who begins changes from session to session."""
    for number in range(len(questions) // 2):
        for side in rotated(sides, number):
            side.next_turns.append(side.turn(f"s-{number}", questions[2 * number]))
            if side.name == "bf16":
                side.pool_turns.append(side.turn(f"s-{number}", questions[2 * number + 1]))


def miss(sides: Sequence[Side], prompts: Prompts, num_prompts: int) -> None:
    """The same prompts on both sides, in the order cold, bf16, bf16, cold ..."""
    chosen = [side for side in sides if side.name in ("cold", "bf16")]
    for number in range(num_prompts):
        text = prompts.text(MISS_TOKENS)
        for side in rotated(chosen, number):
            time.sleep(PAUSE_S)
            side.misses.append(ask(side.stub, text, num_output=1))


def rotated(sides: Sequence[Side], number: int) -> Sequence[Side]:
    return [*sides[number % len(sides) :], *sides[: number % len(sides)]]


def report_of(sides: Mapping[str, Side]) -> dict[str, object]:
    cold, bf16 = sides["cold"], sides["bf16"]
    misses = median_interval(
        [one.ttft_ms / other.ttft_ms for one, other in zip(bf16.misses, cold.misses, strict=True)]
    ).shifted()
    details = {
        "new_tokens": [answer.usage.prompt_tokens - answer.usage.session_tokens for answer in cold.next_turns],
        "ttft_ms": {
            **{name: figures(side.next_turns) for name, side in sides.items()},
            "pool": figures(bf16.pool_turns),
            "miss_without_store": figures(cold.misses),
            "miss_with_store": figures(bf16.misses),
        },
        "8bit_answers_equal": sum(map(same_tokens, sides["8bit"].next_turns, cold.next_turns)),
        "sessions": len(cold.next_turns),
    }
    return details | {
        "restart_speedup_8bit": round(ratio(cold.next_turns, sides["8bit"].next_turns), 2),
        "restart_speedup_bf16": round(ratio(cold.next_turns, bf16.next_turns), 2),
        "pool_speedup": round(ratio(cold.next_turns, bf16.pool_turns), 2),
        "miss_interval_percent": [misses["low"], misses["high"]],
        "miss_overhead_percent": round(100 * (ratio(bf16.misses, cold.misses) - 1), 2),
        "bf16_equal": all(map(same_tokens, bf16.next_turns, cold.next_turns)),
    }


def figures(answers: Sequence[Answer]) -> dict[str, object]:
    return {
        "median": round(median_ms(answers), 1),
        "all": [round(answer.ttft_ms, 1) for answer in answers],
        "prompt_tokens": answers[0].usage.prompt_tokens,
        "cached_tokens": sorted({answer.usage.cached_tokens for answer in answers}),
        "cache": sorted({answer.stages.get("STAGE_CACHE", "") for answer in answers}),
    }


def ratio(slow: Sequence[Answer], fast: Sequence[Answer]) -> float:
    """The median over pairs, which were asked one right after the other."""
    return statistics.median(one.ttft_ms / other.ttft_ms for one, other in zip(slow, fast, strict=True))


def median_ms(answers: Sequence[Answer]) -> float:
    return statistics.median(answer.ttft_ms for answer in answers)


def same_tokens(one: Answer, other: Answer) -> bool:
    return one.token_ids == other.token_ids


def say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
