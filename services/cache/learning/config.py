"""The keys below `cache.learning`: what users come back to."""

from __future__ import annotations

from pydantic import Field

from stagemesh.runtime.config import Section


class LearningConfig(Section):
    enabled: bool = True
    """Learn from conversations what users come back to, and keep its KV ready. Needs `cache.kv`."""
    max_questions: int = Field(default=4_096, ge=16)
    """Questions that are remembered of each tenant; those asked least and longest ago go first."""
    question_tau_s: float = Field(default=604_800.0, gt=0)
    """Time constant with which a question is forgotten: after it, having been asked counts 37 %."""
    question_ttl_s: int = Field(default=2_592_000, ge=60)
    """A tenant without any conversation for so long has nothing learned left."""
    min_users: int = Field(default=2, ge=1)
    """A question is kept warm once so many different users have asked it; until then it is one user's own."""
    max_prefixes: int = Field(default=256, ge=0)
    """Beginnings of conversations whose KV is kept ready, for each tenant."""
    max_prefix_tokens: int = Field(default=2_048, ge=16)
    """Longer beginnings are not kept ready."""
    retrain_interval_s: float = Field(default=300.0, gt=0)
    """How often topics, expectations and what is kept ready are brought in line with live traffic."""
    max_prefills: int = Field(default=32, ge=0)
    """Beginnings that one such round has computed at most."""
    lift_after_turns: int = Field(default=3, ge=2)
    """So many turns in a row on one topic lift what its conversations share into the protected region."""
    lift_s: int = Field(default=1_800, ge=1)
    """For how long."""
    ready_wait_s: float = Field(default=20.0, ge=0)
    """How long the start waits until what was kept ready is stored again; the rest follows while the service works."""
    prefill_timeout_s: float = Field(default=60.0, gt=0)
    """What computing one beginning may take."""
    refit_interval_s: float = Field(default=60.0, gt=0)
    """How often the expectation who comes back is fitted to what was seen."""
