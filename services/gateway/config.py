"""Configuration of the gateway (section `gateway`)."""

from __future__ import annotations

from pydantic import Field, model_validator

from services.gateway.mode_rules import ModesConfig
from services.gateway.rates.config import GuardsConfig
from stagemesh.runtime.breaker import BreakerConfig
from stagemesh.runtime.config import Section
from stagemesh.runtime.config_problems import KeyProblem

BREAKER_PARTS = ("tokenize", "cache", "validate", "correct", "engine")


class RouteConfig(Section):
    """One route class: what its requests may take, and how many run at once."""

    max_concurrency: int = Field(default=32, ge=1)
    """Requests of this class that run at once; the others wait in order."""
    max_concurrency_per_tenant: int = Field(default=0, ge=0)
    """Of one tenant's; 0: as many as there are. Tenants take turns in any case."""
    max_queue: int = Field(default=256, ge=0)
    """Requests that may wait; beyond that they are deferred (where they allow it) or refused."""
    max_tokens: int = Field(default=512, ge=1)
    """Output tokens when the request names no limit."""
    ttft_target_ms: int = Field(default=1_000, ge=1)
    """Target for the time to the first token: while 5 % of the short requests take longer, engines make their steps
    smaller. For prompts of more than 1,024 tokens the engine's own target counts where that is longer."""
    knowledge: str = ""
    """Knowledge base of requests that name none, where their tenant has it; its passages are added to the prompt."""


def _routes() -> dict[str, RouteConfig]:
    return {
        "chat": RouteConfig(),
        "doc-analyze": RouteConfig(max_concurrency=8, max_tokens=1_024, ttft_target_ms=10_000),
        "code-complete": RouteConfig(max_concurrency=16, max_tokens=256, ttft_target_ms=500),
    }


class PassagesConfig(Section):
    """Passages of knowledge bases in prompts."""

    tenants: dict[str, str] = Field(default_factory=dict)
    """Knowledge base by tenant, for requests that name none; it goes before that of the route class."""
    max_passages: int = Field(default=4, ge=1, le=32)
    """Passages that are added to one request."""
    max_tokens: int = Field(default=768, ge=1)
    """Tokens of the passages that are added to one request."""
    max_session_passages: int = Field(default=16, ge=1)
    """Passages that stand in one session; beyond it its later turns add none."""
    timeout_s: float = Field(default=0.25, gt=0)
    """Budget of one search; then the answer goes without passages and is marked."""


class BreakerThresholds(Section):
    failures: int = Field(default=3, ge=1)
    """Consecutive failures after which the part is left alone and its fallback taken."""
    open_s: float = Field(default=1.0, gt=0)
    """For how long, before its health is asked for."""


class BreakersConfig(BreakerThresholds):
    """Breakers of the stages that run elsewhere and of engines. Read again when the file changes."""

    stages: dict[str, BreakerThresholds] = Field(default_factory=dict)
    """Other thresholds by part: tokenize, cache, validate, correct, engine."""

    def of(self, part: str) -> BreakerConfig:
        chosen = self.stages.get(part, self)
        return BreakerConfig(failure_threshold=chosen.failures, open_s=chosen.open_s)

    @model_validator(mode="after")
    def _parts_exist(self) -> BreakersConfig:
        if unknown := set(self.stages) - set(BREAKER_PARTS):
            raise KeyProblem(("stages",), f"names {min(unknown)!r}; parts: {', '.join(BREAKER_PARTS)}")
        return self


class GatewayConfig(Section):
    listen: str = ""
    """gRPC address; empty: `addresses.gateway`."""
    http_listen: str = "127.0.0.1:8080"
    """HTTP address."""
    max_request_bytes: int = Field(default=4 * 1024 * 1024, ge=1_024)
    """Largest request, over gRPC and HTTP."""
    default_timeout_s: float = Field(default=120.0, gt=0)
    """Deadline of a request whose caller sets none."""
    max_timeout_s: float = Field(default=3_600.0, gt=0)
    """Longest deadline that a caller can set."""
    max_choices: int = Field(default=8, ge=1)
    """Largest `n`."""
    max_stored_requests: int = Field(default=200, ge=1)
    """Ended requests whose events stay in memory for late watchers."""

    routes: dict[str, RouteConfig] = Field(default_factory=_routes)
    """Route classes by name, in place of these three: how many run and wait at once, and the tokens of requests that
    set no limit."""
    default_route: str = "chat"
    """Class of requests that name none."""
    shared_adapters: tuple[str, ...] = ()
    """Adapters that every tenant may use; `*` for all. Others are permitted by `stagemesh tenant adapters`."""
    engine_queue_limit: int = Field(default=64, ge=0)
    """Sequences waiting in every engine of a model from which on new requests count as over capacity."""

    modes: ModesConfig = ModesConfig()
    """Precision modes by rule, the limit of `precise`, and what modes cost."""

    guards: GuardsConfig = GuardsConfig()
    """When requests are refused or deferred for their rate, for the engines' utilization or for hot devices."""
    max_hints: int = Field(default=32, ge=0)
    """Prompts that are computed ahead of their requests at once (`Hint`); 0: none."""
    max_hints_per_tenant: int = Field(default=4, ge=0)
    """Of one tenant."""
    hint_timeout_s: float = Field(default=30.0, gt=0)
    """After which a hint is given up."""

    tokenizer_timeout_s: float = Field(default=2.0, gt=0)
    """Budget of one call to the tokenizer."""
    tokenizer_wait_s: float = Field(default=45.0, gt=0)
    """How long a stream waits for text when no tokenizer is up: longer than the supervisor takes to find one that hangs
    (`supervisor.stuck_after_s`) and to start it again."""
    cache_timeout_s: float = Field(default=0.1, gt=0)
    """Budget of one call to the cache; then the request runs cold."""
    session_timeout_s: float = Field(default=0.5, gt=0)
    """Budget of one attempt to get the stored conversation."""
    session_wait_s: float = Field(default=5.0, gt=0)
    """How long a request waits for its conversation when the cache is away (a restart takes seconds), at most half of
    its time; then it is answered without, marked, and the turn is not stored."""
    knowledge: PassagesConfig = PassagesConfig()
    """Passages of knowledge bases in prompts."""
    preferences: bool = True
    """Learn what users keep asking for, and add it to their prompts."""
    validator_timeout_s: float = Field(default=5.0, gt=0)
    """Budget of one verdict; then the answer is marked unvalidated."""
    corrector_timeout_s: float = Field(default=30.0, gt=0)
    """Budget of one correction; then the verdict is returned."""
    engine_wait_s: float = Field(default=20.0, gt=0)
    """How long a request waits for an engine when none is up (a restart takes seconds)."""
    engine_max_attempts: int = Field(default=4, ge=1)
    """Engines tried for one sequence; each continues after the tokens delivered so far."""
    breakers: BreakersConfig = BreakersConfig()
    max_regenerations: int = Field(default=1, ge=0)
    """Regenerations by the corrector for one answer."""

    ledger_timeout_s: float = Field(default=0.25, gt=0)
    """Budget of one ledger call on the caller's path."""
    lease_s: float = Field(default=6.0, gt=0)
    """How long a running request stays with a gateway that is silent; then another one takes it over."""
    outcome_ttl_s: int = Field(default=86_400, ge=1)
    """How long outcomes can be picked up."""
    trace_ttl_s: int = Field(default=86_400, ge=0)
    """How long the stage reports of ended requests are kept for `stagemesh debug`; 0 keeps none. They hold no text."""
    deferred_ttl_s: int = Field(default=86_400, ge=1)
    """How long a deferred request may wait before it expires."""
    deferred_timeout_s: float = Field(default=600.0, gt=0)
    """Deadline of one run of a deferred request."""
    deferred_max_runs: int = Field(default=6, ge=1)
    """Runs of a request that may be cut off, by a crash say, before it is dead-lettered; waiting for capacity is no
    run."""
    max_deferred: int = Field(default=10_000, ge=0)
    """Deferred requests kept at once, per mesh."""
    republish_after_s: float = Field(default=15.0, gt=0)
    """An event whose effect is not confirmed after this time is published again."""

    @model_validator(mode="after")
    def _default_route_exists(self) -> GatewayConfig:
        if self.default_route not in self.routes:
            known = ", ".join(sorted(self.routes))
            raise KeyProblem(("default_route",), f"is {self.default_route!r}, which `routes` lacks ({known})")
        return self
