"""The `corrector` section of the configuration."""

from __future__ import annotations

from pydantic import Field

from services.corrector.adapters.config import AdaptersConfig
from stagemesh.runtime.config import Section
from stagemesh.validation.checker import CheckerConfig
from stagemesh.validation.limits import Limits
from stagemesh.validation.sandbox import SandboxConfig
from stagemesh.validation.sets.config import AnchorSetsConfig


class RankingConfig(Section):
    """An adapter that ranks the values of a source for the fields that the rules leave open."""

    adapter: str = ""
    """Name of the adapter that the engines hold (`engine.adapters.load`); empty: none, where none was promoted."""
    calibration: str = ""
    """Folder of the adapter, or its `calibration.json`: from which likelihood on its judgement counts as sure. Without
    one nothing does."""
    timeout_ms: float = Field(default=2_000.0, gt=0)
    """What asking an engine may take; the rules' result comes back after that."""
    max_source_tokens: int = Field(default=4_096, ge=1)
    """For longer sources no engine is asked."""


class CorrectorConfig(Section):
    listen: str = ""
    """`host:port`; empty: the first of `addresses.corrector`."""
    num_workers: int = Field(default=1, ge=1, le=64)
    """Processes that repair and check texts."""
    worker_memory_mb: int = Field(default=1_024, ge=256)
    """Address space of such a process."""
    repair_timeout_ms: float = Field(default=2_000.0, gt=0)
    """What repairing and checking one text may take."""
    max_waiting: int = Field(default=256, ge=1)
    """Calls that may wait for a process; further ones are refused."""
    max_text_bytes: int = Field(default=1_048_576, ge=1)
    """Longest text that is repaired."""
    min_confidence: float = Field(default=0.5, gt=0, le=1)
    """Changes less sure than this are told, not applied, where a request sets no threshold of its own."""
    max_source_bytes: int = Field(default=262_144, ge=0)
    """Of a longer source only the beginning is looked at."""
    max_regenerations: int = Field(default=2, ge=0)
    """Regenerations for one request, whatever it allows."""
    max_new_tokens: int = Field(default=512, ge=1)
    """Tokens of a regenerated answer where the request sets no limit."""
    default_timeout_s: float = Field(default=30.0, gt=0)
    """For calls without a deadline."""
    min_regeneration_ms: float = Field(default=500.0, ge=0)
    """With less time left no regeneration is begun."""
    max_prompt_issues: int = Field(default=8, ge=1)
    """Issues that the regeneration is told."""
    max_prompt_answer_chars: int = Field(default=4_000, ge=1)
    """Characters of the rejected answer that the regeneration is shown."""

    ranking: RankingConfig = RankingConfig()

    anchor_sets: AnchorSetsConfig = AnchorSetsConfig()
    """Stored reference sets of keys."""
    adapters: AdaptersConfig = AdaptersConfig()
    """Adapters that judge content, and candidates beside them."""

    def sandbox(self) -> SandboxConfig:
        return SandboxConfig(
            num_workers=self.num_workers,
            memory_bytes=self.worker_memory_mb * 1024 * 1024,
            max_waiting=self.max_waiting,
        )

    def checker(self) -> CheckerConfig:
        return CheckerConfig(limits=Limits(max_text_bytes=self.max_text_bytes), timeout_s=self.repair_timeout_ms / 1000)
