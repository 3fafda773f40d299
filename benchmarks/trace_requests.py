"""Recorded requests: which blocks of 512 tokens each prompt holds, and when it came.

The format is that of the Mooncake traces: a JSON line has `timestamp` (ms), `input_length`, `output_length` (tokens)
and `hash_ids`, one for each block; equal numbers are equal blocks behind equal prefixes.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from stagemesh.runtime.kv_value import SeenPrompts, Visit

BLOCK_TOKENS = 512
DEFAULT_TRACE = Path(__file__).resolve().parents[2] / "shared/data/traces/mooncake_conversation.jsonl.gz"


@dataclass(frozen=True)
class TraceRequest:
    at_s: float
    blocks: tuple[int, ...]
    prompt_tokens: int
    answer_tokens: int

    @property
    def num_full_blocks(self) -> int:
        return min(self.prompt_tokens // BLOCK_TOKENS, len(self.blocks))


@dataclass(frozen=True)
class TraceVisit:
    request: TraceRequest
    num_known_blocks: int
    """Leading blocks that some earlier request held."""
    previous: int | None
    """Index of the request that this one continues: the last one with its last known block; None if it is the first."""
    visit: Visit


def read_trace(path: Path, max_requests: int | None = None) -> list[TraceRequest]:
    """Raises OSError for a missing file, KeyError and ValueError for lines of another form."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = (json.loads(line) for line, _ in zip(lines, range(max_requests or 10**9), strict=False))
        return [
            TraceRequest(row["timestamp"] / 1000, tuple(row["hash_ids"]), row["input_length"], row["output_length"])
            for row in rows
        ]


def num_distinct(requests: Sequence[TraceRequest]) -> int:
    return len({block for request in requests for block in request.blocks})


def visits(requests: Sequence[TraceRequest]) -> Iterator[TraceVisit]:
    """What a cache that remembers conversations knows of each request when it comes; nothing of the future.

    A first block that all share (a system prompt) does not make a conversation. It remembers which blocks it has seen,
    not only those that it holds, as the product remembers sessions for longer than their pages.
    """
    last_user: dict[int, int] = {}
    turns: list[int] = []
    for index, request in enumerate(requests):
        known = next((at for at, block in enumerate(request.blocks) if block not in last_user), len(request.blocks))
        previous = last_user[request.blocks[known - 1]] if known > 1 else None
        turns.append(1 if previous is None else turns[previous] + 1)
        before = None if previous is None else requests[previous]
        prompt_tokens = request.num_full_blocks * BLOCK_TOKENS
        yield TraceVisit(
            request,
            known,
            previous,
            Visit(
                prompt_tokens=prompt_tokens,
                known_tokens=min(known * BLOCK_TOKENS, prompt_tokens),
                turn=turns[index],
                remembered_tokens=before.prompt_tokens + before.answer_tokens if before else 0,
                idle_s=request.at_s - before.at_s if before else 0.0,
            ),
        )
        last_user.update(dict.fromkeys(request.blocks, index))


def visits_without_sessions(requests: Sequence[TraceRequest], max_prompts: int) -> Iterator[TraceVisit]:
    """What the cache service knows where no request names a session, and answers are unknown to it."""
    seen, indexes = SeenPrompts(max_prompts), dict[Hashable, int]()
    for index, request in enumerate(requests):
        pages = request.blocks[: request.num_full_blocks]
        if not pages:
            yield TraceVisit(request, 0, None, Visit(prompt_tokens=0))
            continue
        found = seen.add(pages, BLOCK_TOKENS, request.at_s)
        previous = indexes.get(found.previous) if found.previous is not None else None
        yield TraceVisit(request, found.visit.known_tokens // BLOCK_TOKENS, previous, found.visit)
        indexes[pages[-1]] = index
