"""Prompts that name no session: one that begins with all of an earlier one is taken for its next turn.

Clients of chat APIs send the whole conversation each time. Prompts are known by the digest of their last full page,
which stands for all pages before it; a tenant's secret is in it, so prompts of two tenants never meet.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from stagemesh.runtime.kv_value.visit import Visit

MAX_CONTINUATIONS = 2
"""A turn is followed by one other, or by two where an answer was asked for anew. What more prompts begin with is a
common opening, such as a system prompt."""


@dataclass
class SeenPrompt:
    tokens: int
    turn: int
    at_s: float
    num_continuations: int = 0


@dataclass(frozen=True)
class Found:
    """A prompt as a visit, and the one that it follows."""

    visit: Visit
    previous: Hashable | None


class SeenPrompts:
    """The last `max_prompts` of them. Takes a dictionary look-up for each page."""

    def __init__(self, max_prompts: int) -> None:
        self._max_prompts = max_prompts
        self._seen: OrderedDict[Hashable, SeenPrompt] = OrderedDict()

    @property
    def num_prompts(self) -> int:
        return len(self._seen)

    def add(self, pages: Sequence[Hashable], page_tokens: int, now_s: float) -> Found:
        """`pages`: the digests of its full pages, at least one, of which each stands for those before it too."""
        tokens = len(pages) * page_tokens
        known_pages, previous = self._last_turn(pages)
        before = self._seen[previous] if previous is not None else None
        if before is not None and known_pages < len(pages):
            before.num_continuations += 1
        again = known_pages == len(pages)  # the same prompt: no turn later
        turn = 1 if before is None else before.turn + (not again)
        visit = Visit(
            prompt_tokens=tokens,
            known_tokens=known_pages * page_tokens,
            turn=turn,
            remembered_tokens=before.tokens if before is not None else 0,
            idle_s=max(0.0, now_s - before.at_s) if before is not None else 0.0,
        )
        continuations = before.num_continuations if before is not None and again else 0
        self._seen[pages[-1]] = SeenPrompt(tokens, turn, now_s, continuations)
        self._seen.move_to_end(pages[-1])
        if len(self._seen) > self._max_prompts:
            self._seen.popitem(last=False)
        return Found(visit, previous)

    def _last_turn(self, pages: Sequence[Hashable]) -> tuple[int, Hashable | None]:
        """How many leading pages an earlier prompt held, and that prompt if this one is its next turn."""
        known_pages = 0
        for number in range(len(pages), 0, -1):
            before = self._seen.get(pages[number - 1])
            if before is None:
                continue
            known_pages = known_pages or number
            if number == len(pages) or before.num_continuations < MAX_CONTINUATIONS:
                return known_pages, pages[number - 1]
        return known_pages, None
