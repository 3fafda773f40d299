"""Whose texts an adapter was trained on, as a file beside its weights says."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from stagemesh.runtime.errors import InvalidRequest

FILE = "origin.json"


@dataclass(frozen=True, kw_only=True)
class Origin:
    tenant_id: str = ""
    """Whose corrections are among its cases; empty: nobody's."""
    trained_ms: int = 0
    """When they were read; what was erased later may be in it."""
    own_cases: int = 0


def write_origin(folder: Path, origin: Origin) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_text(json.dumps(asdict(origin), indent=1) + "\n", encoding="utf-8")


def read_origin(folder: Path) -> Origin:
    """Without a file, nobody's: it was made elsewhere, and whoever brings it answers for it. Raises InvalidRequest."""
    try:
        return Origin(**json.loads((folder / FILE).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return Origin()
    except (ValueError, TypeError) as error:
        raise InvalidRequest("INVALID_ADAPTER_ORIGIN", f"{folder / FILE} cannot be read: {error}") from None
