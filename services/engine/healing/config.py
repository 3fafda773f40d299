"""The `engine.healing` section of the configuration."""

from __future__ import annotations

from pydantic import Field, PositiveInt

from stagemesh.runtime.config import Section


class HealingConfig(Section):
    """What becomes of a step that fails: by an exception, numbers that are not finite, want of memory, or time."""

    step_timeout_s: float = Field(default=10.0, gt=0)
    """A step is over its time when it takes longer than this and ten times what steps like it took lately."""
    exit_after_s: float = Field(default=30.0, ge=0)
    """How much longer a step may stand still before the process ends itself, so that others go on with its sequences;
    0: it waits for ever."""
    max_requeues: PositiveInt = 3
    """How often a sequence begins again for want of memory, or because its keys and values were spoiled, before it
    fails."""
