"""The folder where peers are installed, outside the repository, and its finished steps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.peers.contender import PeerError

PROGRESS_EVERY_S = 30.0


def peers_dir() -> Path:
    """`stagemesh/peers` in the user's cache folder; made if need be."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    folder = (Path(cache) if cache else Path.home() / ".cache") / "stagemesh" / "peers"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def say(peer: str, words: str) -> None:
    """A line of progress on stderr; stdout is for results."""
    print(f"[{time.strftime('%H:%M:%S')} {peer}] {words}", file=sys.stderr, flush=True)


def step(folder: Path, name: str, key: object, run: Callable[[], None]) -> None:
    """Run it unless it has been finished with the same `key` (a JSON value, e.g. the requirements)."""
    stamp, text = folder / f"{name}.done", json.dumps(key, sort_keys=True)
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == text:
        return
    say(folder.name, f"{name} …")
    started_s = time.monotonic()
    run()
    stamp.write_text(text, encoding="utf-8")
    say(folder.name, f"{name}: done in {time.monotonic() - started_s:.0f} s")


def run_logged(
    folder: Path, log_name: str, command: Sequence[str | Path], env: Mapping[str, str] | None = None
) -> None:
    """Run a command with its output in `<folder>/<log_name>.log`, at low priority, telling its last line now and then.

    Raises PeerError with the last line when it fails.
    """
    log = folder / f"{log_name}.log"
    with log.open("w") as file:
        process = subprocess.Popen(
            ["nice", "-n", "10", *map(str, command)],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=os.environ | dict(env or {}),
        )
        try:
            while not _ended(process):
                say(folder.name, f"{log_name}: {last_line(log)[:100]}")
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise PeerError(f"{log_name} ended with {process.returncode}: {last_line(log)} (whole output: {log})")


def last_line(log: Path) -> str:
    """The last line of a log that says something."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "(no output)"


def _ended(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(PROGRESS_EVERY_S)
    except subprocess.TimeoutExpired:
        return False
    return True
