"""Bounds of everything that a caller can make large."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Limits:
    max_text_bytes: int = 1_048_576
    """Longest text that is looked at."""
    max_constraint_bytes: int = 262_144
    """Longest schema, regex or grammar, and all choices together."""
    max_depth: int = 128
    """Nesting of a JSON text or schema."""
    max_issues: int = 20
    """Issues in a verdict; how many more there are is said in one more."""
    max_anchors: int = 64
    max_anchor_keys: int = 20_000
    """Keys of all anchors of a request together."""
    max_key_chars: int = 256
    max_anchored_values: int = 2_000
    """Values of one text that are compared with anchors."""
    max_rules: int = 64
    """Rules of one request, those about long texts included."""
    max_rule_values: int = 50_000
    """Values of one text that one rule looks at."""
