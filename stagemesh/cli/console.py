"""Where output goes: results to stdout, everything about them to stderr, colours on terminals only."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console

out = Console(soft_wrap=True, highlight=False)
"""Results. Rich leaves colours out where stdout is no terminal or NO_COLOR is set."""

err = Console(stderr=True, soft_wrap=True, highlight=False)
"""Progress and remarks."""


def print_json(value: dict[str, Any] | list[Any]) -> None:
    """One JSON value on stdout."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
    sys.stdout.flush()
