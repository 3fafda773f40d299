"""The `cache.preferences` section of the configuration."""

from __future__ import annotations

from pydantic import Field

from stagemesh.runtime.config import Section


class PreferencesConfig(Section):
    statements: int = Field(default=3, ge=1)
    """In how many requests a user must state a wish before it becomes a part of the user's prompts."""
    ttl_s: int = Field(default=7_776_000, ge=1)
    """A user's preferences are erased this long after the user's last request."""
    max_in_force: int = Field(default=12, ge=1)
    """Preferences of one user that are a part of prompts; further ones wait until one is deleted."""
    max_tracked: int = Field(default=64, ge=1)
    """Wishes of one user that are counted; the one stated the longest ago makes room."""
    max_chars: int = Field(default=160, ge=16)
    """Longest text of a preference; longer sentences are no preference."""
