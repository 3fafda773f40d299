"""What was loaded while the engine ran, on disk: an engine that is restarted holds it again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from services.engine.adapter import LoadedAdapter
from stagemesh.runtime.telemetry import get_logger

log = get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class ManifestEntry:
    name: str
    path: str
    generation: int
    revision: str


class AdapterManifest:
    """A JSON file; None for nowhere. A file that cannot be read or written is logged, and costs the memory of it."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def read(self) -> list[ManifestEntry]:
        """In the order in which they were loaded."""
        if self._path is None or not self._path.exists():
            return []
        try:
            entries = json.loads(self._path.read_text(encoding="utf-8"))
            return [
                ManifestEntry(
                    name=str(entry["name"]),
                    path=str(entry["path"]),
                    generation=int(entry["generation"]),
                    revision=str(entry["revision"]),
                )
                for entry in entries
            ]
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            log.warning("the list of loaded adapters cannot be read", path=str(self._path), error=str(error))
            return []

    def write(self, adapters: Iterable[LoadedAdapter]) -> None:
        if self._path is None:
            return
        entries = [
            asdict(ManifestEntry(name=a.name, path=a.path, generation=a.generation, revision=a.revision))
            for a in adapters
        ]
        written = self._path.with_suffix(".new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            written.write_text(json.dumps(entries), encoding="utf-8")
            os.replace(written, self._path)
        except OSError as error:
            log.warning("the list of loaded adapters cannot be written", path=str(self._path), error=str(error))
