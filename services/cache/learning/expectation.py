"""What the pages of a request will be worth: the policy of `kv_value`, fed with what the cache service sees."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from services.cache.session import StoredSession
from stagemesh.runtime.kv_keys import PAGE_TOKENS
from stagemesh.runtime.kv_value import Belief, Horizons, LearnerLimits, ReturnLearner, SeenPrompts, Visit


class Expectation:
    """Learns from sessions, and from prompts that hold all of an earlier one."""

    def __init__(self, tau_s: float) -> None:
        limits = LearnerLimits(tau_s=tau_s)
        self._learner = ReturnLearner(limits)
        self._prompts = SeenPrompts(limits.max_visits)

    @property
    def num_visits(self) -> int:
        return self._learner.num_visits

    @property
    def belief(self) -> Belief:
        return self._learner.belief

    def carry_on(self, belief: Belief) -> None:
        """Begin with what an earlier process had learned."""
        self._learner.carry_on(belief)

    def of_session(
        self, tenant_id: str, session_id: str, session: StoredSession | None, num_tokens: int, *, ahead: bool = False
    ) -> Horizons:
        """For the next turn of a session, which is None on its first; counts as that turn, but where it is computed
        `ahead` of it."""
        now_s, key = time.time(), (tenant_id, session_id)
        if session is None:
            visit, previous = Visit(prompt_tokens=num_tokens), None
        else:
            visit, previous = _next_turn(session, num_tokens, now_s), key
        return self._learner.horizons(visit) if ahead else self._learner.visited(key, visit, now_s, previous)

    def of_prompt(self, pages: Sequence[bytes], *, ahead: bool = False) -> Horizons:
        """For a prompt without a session. `pages` are its digests, in which tenant and model are."""
        if ahead or not pages:
            return self._learner.horizons(Visit(prompt_tokens=len(pages) * PAGE_TOKENS))
        now_s = time.time()
        found = self._prompts.add(pages, PAGE_TOKENS, now_s)
        return self._learner.visited(pages[-1], found.visit, now_s, found.previous)

    async def refit(self) -> None:
        """Fit it to what was seen, in another thread."""
        observed = self._learner.observed(time.time())
        self._learner.adopt(await asyncio.to_thread(self._learner.fitted, observed))


def _next_turn(session: StoredSession, num_tokens: int, now_s: float) -> Visit:
    remembered = len(session.token_ids)
    return Visit(
        prompt_tokens=max(num_tokens, remembered),
        known_tokens=remembered,
        turn=session.version + 1,
        remembered_tokens=remembered,
        idle_s=max(0.0, now_s - session.updated_ms / 1000),
    )
