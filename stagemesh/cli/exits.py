"""Exit codes of the command, and the errors that lead to them. `docs/cli.md` has the same table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

import click


class Exit(IntEnum):
    OK = 0
    """Done; for an answer: complete, or degraded and marked so."""
    FAILED = 1
    """Not as asked: an answer that does not validate, a mesh that is not wholly ready, a check that found a risk."""
    USAGE = 2
    """Wrong options or configuration."""
    UNREACHABLE = 3
    """No mesh answers there."""
    REJECTED = 4
    """The mesh refused the request."""
    DEFERRED = 5
    """Accepted for later."""
    CANCELLED = 6
    EXPIRED = 7
    """The deadline passed."""
    DEAD_LETTERED = 8
    """Given up with a reason, for an operator."""
    INTERRUPTED = 130
    """Ctrl-C."""


class CommandError(click.ClickException):
    """Ends the command with one sentence that says what to do."""

    def __init__(self, message: str, code: Exit = Exit.FAILED) -> None:
        super().__init__(message)
        vars(self)["exit_code"] = int(code)  # click declares it for the class


@contextmanager
def until_interrupted() -> Iterator[None]:
    """Around what only Ctrl-C ends: it ends with its exit code and without a word."""
    try:
        yield
    except KeyboardInterrupt:
        raise SystemExit(Exit.INTERRUPTED) from None
