"""Open pages of sequences that have ended: where a conversation goes on, it need not compute their tokens again."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from services.engine.page_table import Owner
from stagemesh.runtime.kv_keys import PAGE_TOKENS

Place = tuple[Owner, bytes]
"""Whose page, and the digest of the page before it (empty for the first)."""


@dataclass(frozen=True)
class TailPage:
    """A free page whose first `len(tokens)` positions hold KV; fewer than PAGE_TOKENS."""

    page: int
    place: Place
    tokens: array[int]

    def num_common(self, tokens: Sequence[int]) -> int:
        """How many of its leading tokens are those of `tokens`."""
        same = 0
        for own, other in zip(self.tokens, tokens, strict=False):
            if own != other:
                break
            same += 1
        return same


class TailPages:
    """At most one page for each place, the newest. A page is found once: whoever finds it writes on in it."""

    def __init__(self) -> None:
        self._by_place: dict[Place, TailPage] = {}
        self._by_page: dict[int, TailPage] = {}

    def __contains__(self, page: int) -> bool:
        return page in self._by_page

    def pages(self) -> list[int]:
        return list(self._by_page)

    def keep(self, page: int, place: Place, tokens: Sequence[int]) -> int | None:
        """Note a page; gives the one that was noted for that place before and is nobody's now."""
        assert 0 < len(tokens) < PAGE_TOKENS, "an open page"
        before = self._by_place.get(place)
        if before is not None:
            del self._by_page[before.page]
        tail = TailPage(page, place, array("i", tokens))
        self._by_place[place] = self._by_page[page] = tail
        return None if before is None else before.page

    def take(self, place: Place, tokens: Sequence[int]) -> tuple[int, int] | None:
        """The page whose tokens `tokens` begin with, and how many; it is no longer noted."""
        tail = self._by_place.get(place)
        if tail is None or not (num_common := tail.num_common(tokens)):
            return None
        self.drop(tail.page)
        return tail.page, num_common

    def drop(self, page: int) -> None:
        """Forget what a page holds."""
        tail = self._by_page.pop(page, None)
        if tail is not None:
            del self._by_place[tail.place]
