"""What is known of a stored set, and what a set may be called."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass

from stagemesh.runtime.errors import InvalidRequest

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


@dataclass(frozen=True, kw_only=True)
class Manifest:
    name: str
    generation: int
    """Grows with every load; of another number are other keys."""
    keys: int
    repeated_keys: int
    key_bytes: int
    stored_bytes: int
    ignore_case: bool
    max_edits: int
    token: str
    """Of the load that stored the chunks."""
    chunks: int
    updated_ms: int

    def pack(self) -> str:
        return json.dumps(asdict(self))


def unpack(data: bytes) -> Manifest:
    return Manifest(**json.loads(data))


def check_set_name(name: str, field: str = "name") -> str:
    """`name`, if a set can have it. Raises InvalidRequest."""
    if not _NAME.fullmatch(name):
        raise InvalidRequest(
            "INVALID_SET_NAME",
            f"{name[:80]!r} cannot name a set: use 1 to 63 of a-z, 0-9, '.', '_', '-', a letter or digit first",
            field=field,
        )
    return name
