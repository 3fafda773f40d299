"""What `stagemesh anchors` shows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from stagemesh.api.validator.v1 import anchor_sets_pb2
from stagemesh.cli import console
from stagemesh.cli.client.documents import printable as printable


@contextmanager
def showing_progress() -> Iterator[Callable[[int], None]]:
    """A line that is written over on a terminal; silence elsewhere."""
    terminal = console.err.is_terminal

    def show(keys: int) -> None:
        if terminal:
            console.err.print(f"Sent {keys:,} keys", end="\r")

    yield show
    if terminal:
        console.err.print(" " * 40, end="\r")


def set_json(one: anchor_sets_pb2.AnchorSet) -> dict[str, Any]:
    return {
        "name": one.name,
        "generation": one.generation,
        "keys": one.keys,
        "repeated_keys": one.repeated_keys,
        "key_bytes": one.key_bytes,
        "stored_bytes": one.stored_bytes,
        "ignore_case": one.ignore_case,
        "max_edits": one.max_edits,
        "updated_at_s": one.updated_at.seconds,
    }


def set_line(one: anchor_sets_pb2.AnchorSet) -> str:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.updated_at.seconds))
    repeated = f", {one.repeated_keys:,} came more than once" if one.repeated_keys else ""
    case = ", without regard to case" if one.ignore_case else ""
    edits = {0: "no edits", 1: "one edit", 2: "two edits"}[one.max_edits]
    return (
        f"{one.name}  {one.keys:,} keys{repeated}, {one.stored_bytes / 1e6:.1f} MB stored, up to {edits}{case}, "
        f"generation {one.generation} of {when}"
    )


def match_name(found: anchor_sets_pb2.LookupResponse) -> str:
    return anchor_sets_pb2.Match.Name(found.match).removeprefix("MATCH_").lower()
