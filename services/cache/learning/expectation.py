"""What the pages of a request will be worth: the policy of `kv_value`, fed with what the cache service sees."""

from __future__ import annotations

import asyncio
import time

from services.cache.session import StoredSession
from stagemesh.runtime.kv_value import Horizons, LearnerLimits, ReturnLearner, Visit


class Expectation:
    """Learns from sessions only: whether somebody without one came back, nobody can tell."""

    def __init__(self, tau_s: float) -> None:
        self._learner = ReturnLearner(LearnerLimits(tau_s=tau_s))

    def of_session(self, tenant_id: str, session_id: str, session: StoredSession | None, num_tokens: int) -> Horizons:
        """For the next turn of a session, which is None on its first; counts as that turn."""
        now_s, key = time.time(), (tenant_id, session_id)
        if session is None:
            return self._learner.visited(key, Visit(prompt_tokens=num_tokens), now_s)
        remembered = len(session.token_ids)
        visit = Visit(
            prompt_tokens=max(num_tokens, remembered),
            known_tokens=remembered,
            turn=session.version + 1,
            remembered_tokens=remembered,
            idle_s=max(0.0, now_s - session.updated_ms / 1000),
        )
        return self._learner.visited(key, visit, now_s, key)

    def of_prompt(self, num_tokens: int) -> Horizons:
        """For a prompt without a session."""
        return self._learner.horizons(Visit(prompt_tokens=num_tokens))

    async def refit(self) -> None:
        """Fit it to what was seen, in another thread."""
        weights = await asyncio.to_thread(self._learner.fitted, self._learner.observed(time.time()))
        self._learner.restore(weights)
