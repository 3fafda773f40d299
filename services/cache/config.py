"""The `cache` section of the configuration."""

from __future__ import annotations

from pydantic import Field

from services.cache.knowledge.config import KnowledgeConfig
from services.cache.kv_config import KvConfig
from services.cache.learning.config import LearningConfig
from services.cache.preferences.config import PreferencesConfig
from stagemesh.runtime.config import Section


class CacheConfig(Section):
    listen: str = ""
    """`host:port`; empty: the first of `addresses.cache`."""
    session_ttl_s: int = Field(default=86_400, ge=1)
    """A session is erased this long after its user last opened or continued it."""
    max_session_messages: int = Field(default=1_000, ge=2)
    """Messages kept per session; beyond it the oldest turns are dropped."""
    max_session_bytes: int = Field(default=1_048_576, ge=1_024)
    """Encoded messages kept per session; beyond it the oldest turns are dropped. A single turn must fit in it."""
    max_session_tokens: int = Field(default=262_144, ge=0)
    """Longer conversations are stored without their tokens and encoded again on the next turn."""
    max_sessions_per_tenant: int = Field(default=100_000, ge=1)
    """Living sessions of one tenant; beyond it a new session is refused."""
    max_id_bytes: int = Field(default=512, ge=16)
    """Longest tenant, session, user or request ID, in UTF-8."""
    lease_ttl_s: int = Field(default=600, ge=1)
    """How long an engine may reuse pages under a lease's salt."""
    redis_budget_ms: float = Field(default=50.0, gt=0)
    """How long looking for reusable pages may hold up a request; then it runs cold."""
    session_budget_ms: float = Field(default=250.0, gt=0)
    """How long opening a session may hold up a request; then it runs without its conversation."""
    commit_budget_ms: float = Field(default=200.0, gt=0)
    """The same for commits, listings and erasures, which are off the caller's path."""
    redis_timeout_ms: float = Field(default=2_000.0, gt=0)
    """When an unanswered Redis operation is given up, in the background, after its caller has gone on."""
    max_redis_calls: int = Field(default=128, ge=1)
    """Redis operations under way at once; what comes on top is refused at once."""
    root_refresh_ms: float = Field(default=1_000.0, ge=0)
    """How old the known epoch may be: an invalidation by an operator takes effect within this time."""
    breaker_failures: int = Field(default=3, ge=1)
    """Consecutive failures after which Redis is left alone."""
    breaker_open_ms: float = Field(default=1_000.0, gt=0)
    """How long Redis is left alone before one call probes it."""
    kv: KvConfig = KvConfig()
    """KV pages that outlive the engines."""
    public_prefixes: tuple[str, ...] = ()
    """System messages whose KV pages all tenants share, word for word. Nothing that a client sends becomes public."""
    explain_requests: int = Field(default=1_000, ge=0)
    """Requests of each tenant that `stagemesh cache explain` remembers."""
    explain_ttl_s: int = Field(default=86_400, ge=1)
    """How long it remembers them, and how long counts of a tenant without requests are kept."""
    explain_flush_ms: float = Field(default=250.0, gt=0)
    """What became of requests is written down together, this often."""
    knowledge: KnowledgeConfig = KnowledgeConfig()
    """Documents that answers may draw on."""
    preferences: PreferencesConfig = PreferencesConfig()
    """What users keep asking for."""
    learning: LearningConfig = LearningConfig()
    """What users come back to, kept ready."""
