"""How a model is asked for one value of a source. Training and use share it."""

from __future__ import annotations

from typing import Any

from stagemesh.validation.json_text import dump

NOTHING = "none"
"""The answer where the source does not tell the value."""


def opening(source: str) -> str:
    """What stands before the first question; the same for all fields of one source."""
    return f"{source.strip()}\n\n---\n"


def question(name: str, title: str = "") -> str:
    """What stands before a value."""
    spaced = name.replace("_", " ").strip()
    return f"{spaced} ({title}):" if title and title != name else f"{spaced}:"


def answer(value: Any) -> str:
    """A value as it follows its question, to the end of the line."""
    return f" {value if isinstance(value, str) else dump(value)}\n"
