"""Where a mesh keeps its files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import platformdirs


@dataclass(frozen=True)
class StateDir:
    """The folder of one mesh; only its owner may read it."""

    path: Path

    @property
    def mesh_file(self) -> Path:
        return self.path / "mesh.json"

    @property
    def lock_file(self) -> Path:
        return self.path / "supervisor.lock"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    def log_of(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def create(self) -> None:
        """Make the folders. Raises OSError."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.logs.mkdir(mode=0o700, exist_ok=True)


def locate_state(given: Path | None, configured: Path | None = None) -> StateDir:
    """`--state`, else `$STAGEMESH_STATE`, else `state_dir` of the configuration, else the user's state folder."""
    environment = os.environ.get("STAGEMESH_STATE")
    path = given or (Path(environment) if environment else None) or configured
    return StateDir((path or platformdirs.user_state_path("stagemesh")).expanduser().absolute())
