"""The `validator` section of the configuration."""

from __future__ import annotations

from pydantic import Field

from stagemesh.runtime.config import Section
from stagemesh.validation.checker import CheckerConfig
from stagemesh.validation.limits import Limits
from stagemesh.validation.sandbox import SandboxConfig
from stagemesh.validation.sets.config import AnchorSetsConfig


class ValidatorConfig(Section):
    listen: str = ""
    """`host:port`; empty: the first of `addresses.validator`."""
    num_workers: int = Field(default=2, ge=1, le=64)
    """Processes that check texts; as many texts are checked at once."""
    worker_memory_mb: int = Field(default=1_024, ge=256)
    """Address space of such a process."""
    check_timeout_ms: float = Field(default=1_000.0, gt=0)
    """What checking one text may take; a constraint that exceeds it is refused."""
    max_waiting: int = Field(default=256, ge=1)
    """Calls that may wait for a process; further ones are refused."""
    max_remembered: int = Field(default=512, ge=0)
    """Verdicts that are kept for repeated questions."""
    max_text_bytes: int = Field(default=1_048_576, ge=1)
    """Longest text that is checked."""
    max_constraint_bytes: int = Field(default=262_144, ge=1)
    """Longest schema or expression."""
    max_depth: int = Field(default=128, ge=1, le=200)
    """Nesting of a JSON text or schema."""
    max_issues: int = Field(default=20, ge=1)
    """Issues in a verdict."""
    max_anchors: int = Field(default=64, ge=0)
    """Anchors of one request."""
    max_anchor_keys: int = Field(default=20_000, ge=1)
    """Keys of all anchors of a request together."""
    max_key_chars: int = Field(default=256, ge=1)
    """Longest key of an anchor."""

    anchor_sets: AnchorSetsConfig = AnchorSetsConfig()
    """Stored reference sets of keys."""

    def sandbox(self) -> SandboxConfig:
        return SandboxConfig(
            num_workers=self.num_workers,
            memory_bytes=self.worker_memory_mb * 1024 * 1024,
            max_waiting=self.max_waiting,
        )

    def checker(self) -> CheckerConfig:
        limits = Limits(
            max_text_bytes=self.max_text_bytes,
            max_constraint_bytes=self.max_constraint_bytes,
            max_depth=self.max_depth,
            max_issues=self.max_issues,
            max_anchors=self.max_anchors,
            max_anchor_keys=self.max_anchor_keys,
            max_key_chars=self.max_key_chars,
        )
        return CheckerConfig(limits=limits, timeout_s=self.check_timeout_ms / 1000, max_remembered=self.max_remembered)
