"""Recorded conversations on disk → what `stagemesh cache warm` sends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stagemesh.api.cache.v1.learning_pb2 import Dialogue, DialogueTurn
from stagemesh.cli.exits import CommandError, Exit

MAX_LINE_BYTES = 4_000_000
FORM = '{"session_id": "…", "user_id": "…", "turns": [{"q": "…", "a": "…"}]}'


def read_dialogues(path: Path) -> Iterator[Dialogue]:
    """A conversation a line; a `system` message is optional. Raises CommandError with the line at fault."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield parse(line, f"{path}:{number}")
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error}", Exit.USAGE) from None


def parse(line: bytes, where: str) -> Dialogue:
    if len(line) > MAX_LINE_BYTES:
        raise CommandError(f"{where}: a conversation has at most {MAX_LINE_BYTES:,} bytes", Exit.USAGE)
    try:
        given = json.loads(line)
        return _dialogue(given)
    except (ValueError, RecursionError, KeyError, TypeError):
        raise CommandError(f"{where}: a line must be an object {FORM}", Exit.USAGE) from None


def _dialogue(given: dict[str, Any]) -> Dialogue:
    """Raises KeyError, TypeError or ValueError for anything else."""
    turns = [DialogueTurn(q=turn["q"], a=turn["a"]) for turn in given["turns"]]
    if not turns or not given["session_id"]:
        raise ValueError("empty")
    return Dialogue(
        session_id=given["session_id"], user_id=given["user_id"], system=given.get("system", ""), turns=turns
    )
