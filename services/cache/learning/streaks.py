"""How many turns in a row each conversation has spent on one topic, and what conversations on it begin with alike."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stagemesh.runtime.kv_keys import PAGE_TOKENS

MAX_CONVERSATIONS = 10_000
MAX_TOPICS = 1_000
KEPT_PER_TOPIC = 4
KEPT_TOKENS = 2_048
"""Of each conversation's beginning."""

Key = tuple[str, str]
Tokens = npt.NDArray[np.uint32]


class Streaks:
    """Bounded: who has been silent longest is forgotten."""

    def __init__(self) -> None:
        self._streaks: OrderedDict[Key, tuple[str, int]] = OrderedDict()

    def turn(self, tenant_id: str, session_id: str, topic_id: str) -> int:
        """The length of the conversation's streak with this turn; an empty topic ends it."""
        key = (tenant_id, session_id)
        last, length = self._streaks.pop(key, ("", 0))
        length = 0 if not topic_id else length + 1 if topic_id == last else 1
        if length:
            self._streaks[key] = (topic_id, length)
        while len(self._streaks) > MAX_CONVERSATIONS:
            self._streaks.popitem(last=False)
        return length

    def forget(self, tenant_id: str, session_id: str) -> None:
        self._streaks.pop((tenant_id, session_id), None)


@dataclass(frozen=True)
class _Beginning:
    session_id: str
    user_id: str
    tokens: Tokens


class Beginnings:
    """The last few conversations on each topic of each tenant, by their first tokens."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Key, list[_Beginning]] = OrderedDict()

    def shared(self, tenant_id: str, topic_id: str, session_id: str, user_id: str, tokens: Sequence[int]) -> int:
        """How many leading tokens, in whole pages, another conversation on this topic has as well; notes this one."""
        key = (tenant_id, topic_id)
        others = [kept for kept in self._kept.pop(key, []) if kept.session_id != session_id]
        own: Tokens = np.asarray(tokens[:KEPT_TOKENS], dtype=np.uint32)
        longest = max((common(own, other.tokens) for other in others), default=0)
        self._kept[key] = [*others, _Beginning(session_id, user_id, own)][-KEPT_PER_TOPIC:]
        while len(self._kept) > MAX_TOPICS:
            self._kept.popitem(last=False)
        return longest // PAGE_TOKENS * PAGE_TOKENS

    def forget(self, tenant_id: str, *, session_id: str = "", user_id: str = "") -> None:
        for key, kept in self._kept.items():
            if key[0] == tenant_id:
                kept[:] = [
                    entry
                    for entry in kept
                    if not ((session_id and entry.session_id == session_id) or (user_id and entry.user_id == user_id))
                ]


def common(one: Tokens, other: Tokens) -> int:
    size = min(len(one), len(other))
    differs = np.flatnonzero(one[:size] != other[:size])
    return int(differs[0]) if len(differs) else size
