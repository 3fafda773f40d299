"""The identity of a model's bytes. Hashes of large files are remembered by path, size and modification time."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from stagemesh.models.store import ModelFiles

BLOCK_BYTES = 4 * 1024 * 1024


def revision(files: ModelFiles) -> str:
    """SHA-256 that stands for the weights: of the file for GGUF, else over the weight files' hashes and `config.json`.

    Pinned for the built-in model; computed once for others (about a second per GB).
    """
    if files.pinned_sha256:
        return files.pinned_sha256
    if files.kind == "gguf":
        return remembered_sha256(files.path, files.cache_dir)
    digest = hashlib.sha256()
    for path in [*files.weight_paths(), files.path / "config.json"]:
        digest.update(f"{path.name}\0{remembered_sha256(path, files.cache_dir)}\n".encode())
    return digest.hexdigest()


def sha256_of(path: Path, on_bytes: Callable[[int], None] | None = None) -> str:
    """Hash a file; `on_bytes` hears the number of bytes of each block."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
            if on_bytes:
                on_bytes(len(block))
    return digest.hexdigest()


def remembered_sha256(path: Path, cache_dir: Path) -> str:
    """The file's hash, computed only when its size or modification time is new."""
    if found := recall(path, cache_dir):
        return found
    state = _state(path)
    value = sha256_of(path)
    if state == _state(path):  # a file that changed meanwhile has no hash worth keeping
        remember(path, cache_dir, value)
    return value


def recall(path: Path, cache_dir: Path) -> str:
    """The remembered hash, empty if there is none for this size and modification time."""
    try:
        data = json.loads(_record(path, cache_dir).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    if not isinstance(data, dict) or data.get("state") != _state(path):
        return ""
    return str(data.get("sha256", ""))


def remember(path: Path, cache_dir: Path, value: str) -> None:
    """Keep a hash; a folder that cannot be written to costs only the next computation."""
    record = _record(path, cache_dir)
    try:
        record.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=record.parent, delete=False, encoding="utf-8") as file:
            json.dump({"path": str(path), "state": _state(path), "sha256": value}, file)
        os.replace(file.name, record)
    except OSError:
        return


def _state(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ino]


def _record(path: Path, cache_dir: Path) -> Path:
    return cache_dir / "hashes" / f"{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:32]}.json"
