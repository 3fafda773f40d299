"""Weights quantized at load, kept on disk for the next start: one file for each model, checked when it is read."""

from __future__ import annotations

import fcntl
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import save_file

from services.engine.weights.safetensors_file import StoredTensor, open_safetensors
from stagemesh.models.errors import ModelCorrupt
from stagemesh.runtime.telemetry import get_logger

log = get_logger(__name__)

VERSION = 1
"""Of the quantizers and of the files' layout: files of another version are not found, and evicted in time."""
PART, LOCK = "saving.part", "saving.lock"
"""In the folder, for all models: what is being written, and a lock for whoever writes it."""
Raw = npt.NDArray[np.uint8]


class QuantizedCache:
    """Entries are named `tensor:format`. A file that is damaged costs the time to quantize again, nothing else."""

    def __init__(self, folder: Path, revision: str, *, max_bytes: int) -> None:
        """`revision` stands for the bytes that were quantized; 0 bytes keep nothing."""
        self._path = folder / f"{revision[:40]}-{VERSION}.safetensors"
        self._max_bytes = max_bytes
        self._stored, self._sums = self._open() if max_bytes else ({}, {})
        self._made: dict[str, Raw] = {}

    def get(self, name: str, format_: str) -> Raw | None:
        """[rows, bytes per row], or None if it is not there or damaged."""
        key = f"{name}:{format_}"
        found = self._stored.get(key)
        if found is None:
            return None
        if self._sums.get(key) != _checksum(found.raw):
            log.warning("cached weights are damaged and quantized again", path=str(self._path), tensor=key)
            del self._stored[key]
            return None
        return found.rows()

    def put(self, name: str, format_: str, raw: Raw) -> None:
        """Keep rows until `save`."""
        if self._max_bytes:
            self._made[f"{name}:{format_}"] = raw

    def save(self) -> None:
        """Write what is new, with what is there and sound; a disk that refuses costs only the next start's time."""
        if not self._made:
            _touch(self._path)
            return
        kept = {key: tensor.rows() for key, tensor in self._stored.items() if self._is_sound(key, tensor)}
        entries = {**kept, **self._made}
        if sum(raw.nbytes for raw in entries.values()) > self._max_bytes:
            log.warning("quantized weights exceed engine.weight_cache_mb and are not kept", path=str(self._path))
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with saving(self._path.parent):
                made = self._path.parent / PART  # the same each time, so that a save that is killed leaves one file
                save_file(entries, made, metadata={key: _checksum(raw) for key, raw in entries.items()})
                os.replace(made, self._path)
                self._evict()
        except (OSError, SafetensorError) as error:
            log.warning("quantized weights could not be kept", path=str(self._path), reason=str(error))

    def _open(self) -> tuple[dict[str, StoredTensor], dict[str, str]]:
        if not self._path.is_file():
            return {}, {}
        try:
            file = open_safetensors(self._path)
        except ModelCorrupt as error:
            log.warning("cached weights are damaged and quantized again", reason=str(error))
            return {}, {}
        return dict(file.tensors), dict(file.metadata)

    def _is_sound(self, key: str, tensor: StoredTensor) -> bool:
        return self._sums.get(key) == _checksum(tensor.raw)

    def _evict(self) -> None:
        """Delete the files that were used longest ago until the rest fits."""
        files = sorted(self._path.parent.glob("*.safetensors"), key=lambda path: path.stat().st_mtime, reverse=True)
        total = 0
        for path in [self._path, *(other for other in files if other != self._path)]:
            total += path.stat().st_size
            if total > self._max_bytes and path != self._path:
                path.unlink(missing_ok=True)


@contextmanager
def saving(folder: Path) -> Iterator[None]:
    """One process at a time. Raises OSError while another saves; the kernel frees the lock of one that dies."""
    with (folder / LOCK).open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def _touch(path: Path) -> None:
    try:
        os.utime(path)
    except OSError:
        return  # not there, or not ours: it is only evicted earlier


def _checksum(raw: Raw) -> str:
    return str(zlib.crc32(np.ascontiguousarray(raw).data))
