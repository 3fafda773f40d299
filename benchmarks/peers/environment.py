"""A Python environment of a peer's own, with its packages from pip."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers.cache import peers_dir, run_logged, step


def make_environment(name: str, requirements: Sequence[str], remove: Sequence[str] = ()) -> Path:
    """The interpreter of `<peers>/<name>/venv` with `requirements` installed and `remove` (what breaks it) taken out.

    An interrupted installation goes on where it was, from pip's own cache. Raises PeerError.
    """
    folder = peers_dir() / name
    folder.mkdir(exist_ok=True)
    python = folder / "venv" / "bin" / "python"

    def install() -> None:
        run_logged(folder, "venv", [sys.executable, "-m", "venv", folder / "venv"])
        run_logged(folder, "pip", [python, "-m", "pip", "install", "--progress-bar=off", *requirements])
        if remove:
            run_logged(folder, "pip-remove", [python, "-m", "pip", "uninstall", "--yes", *remove])

    step(folder, "install", {"requirements": list(requirements), "remove": list(remove)}, install)
    return python


def installed_versions(python: Path, packages: Sequence[str]) -> dict[str, str]:
    """Versions of those of `packages` that the environment has."""
    code = (
        "import importlib.metadata as m, json, sys\n"
        "names = {d.metadata['Name'].lower().replace('_', '-'): d.version for d in m.distributions()}\n"
        "print(json.dumps({n: names[n] for n in sys.argv[1:] if n in names}))"
    )
    output = subprocess.run([python, "-c", code, *packages], capture_output=True, text=True, timeout=60, check=True)
    return {str(name): str(version) for name, version in json.loads(output.stdout).items()}
