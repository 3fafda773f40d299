"""Where output goes: results to stdout, everything about them to stderr, colours on terminals only."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any, TextIO

from rich.console import Console

PIPE_WIDTH = 200
"""Columns of a table that goes to a file or a pipe."""


def _console(file: TextIO, *, stderr: bool = False) -> Console:
    return Console(stderr=stderr, highlight=False, soft_wrap=True, width=None if file.isatty() else PIPE_WIDTH)


out = _console(sys.stdout)
"""Results. Rich leaves colours out where stdout is no terminal or NO_COLOR is set."""

err = _console(sys.stderr, stderr=True)
"""Progress and remarks."""


def print_lines(lines: Sequence[str], nothing: str) -> None:
    """Each on a line of its own; without any, `nothing` as a remark."""
    for line in lines:
        sys.stdout.write(line + "\n")
    if not lines:
        err.print(nothing, markup=False)


def print_json(value: dict[str, Any] | list[Any]) -> None:
    """One JSON value on stdout."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
    sys.stdout.flush()
