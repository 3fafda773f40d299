"""Fetch one file of known SHA-256: resumed after every break, across processes, and checked at the end."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from stagemesh.models.errors import PullError
from stagemesh.models.package_index import local_path
from stagemesh.models.progress import OnProgress, Progress
from stagemesh.models.revision import sha256_of

MAX_BARREN_ATTEMPTS = 5
"""Attempts in a row that bring less than MIN_ATTEMPT_BYTES."""
MIN_ATTEMPT_BYTES = 256 * 1024
FIRST_PAUSE_S = 0.5
LOST_CONNECTION = (httpx.TransportError, httpx.StreamError)


def fetch(
    client: httpx.Client,
    url: str,
    part: Path,
    sha256: str,
    on_progress: OnProgress,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Bring `url` into the file `part`, continuing what is already there, until its hash is `sha256`.

    Raises PullError: the source cannot be reached, holds other bytes, or the disk is full. What was fetched of a good
    file stays in `part` for the next time; wrong bytes are deleted.
    """
    source = local_path(url)
    if source is not None:
        with reporting_full_disk(part.parent):
            shutil.copyfile(source, part)
    elif not _is_complete(part, sha256):
        _fetch_http(client, url, part, on_progress, pause)
    if _is_complete(part, sha256):
        return
    part.unlink(missing_ok=True)
    raise PullError(f"{url} holds other bytes than expected (SHA-256 is not {sha256}); nothing was kept, pull again")


def _fetch_http(
    client: httpx.Client, url: str, part: Path, on_progress: OnProgress, pause: Callable[[float], None]
) -> None:
    barren = 0
    while True:
        before = _size(part)
        try:
            _fetch_once(client, url, part, on_progress)
            return
        except LOST_CONNECTION as error:
            barren = 0 if _size(part) - before >= MIN_ATTEMPT_BYTES else barren + 1
            if barren >= MAX_BARREN_ATTEMPTS:
                raise PullError(
                    f"{url} could not be fetched ({error or type(error).__name__}); {_size(part)} bytes are kept, "
                    "so that the next pull continues there"
                ) from None
            pause(FIRST_PAUSE_S * 2**barren)


def _fetch_once(client: httpx.Client, url: str, part: Path, on_progress: OnProgress) -> None:
    start = _size(part)
    # A compressed transfer would shift the offsets of a resumed one.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
    with client.stream("GET", url, headers=headers) as response:
        if response.status_code == 416:  # nothing lies beyond what is here: too long, or complete and checked next
            if int(response.headers.get("content-range", "*/-1").rpartition("/")[2]) != start:
                part.unlink()
                raise httpx.ReadError("the server has another file than the one that was begun")
            return
        if response.status_code >= 500 or response.status_code == 429:
            raise httpx.ReadError(f"status {response.status_code}")
        if response.status_code not in {200, 206}:
            raise PullError(f"{url} answered with status {response.status_code}")
        if response.status_code == 200 or not response.headers.get("content-range", "").startswith(f"bytes {start}-"):
            if response.status_code == 206:
                raise PullError(f"{url} answered with another range than the one that was asked for")
            start = 0
        total = start + int(response.headers.get("content-length", 0))
        _write(response.iter_bytes(256 * 1024), part, start, total, on_progress)


def _write(blocks: Iterator[bytes], part: Path, start: int, total: int, on_progress: OnProgress) -> None:
    require_space(part.parent, total - start)
    with reporting_full_disk(part.parent), part.open("ab" if start else "wb") as file:
        for block in blocks:
            file.write(block)
            start += len(block)
            on_progress(Progress(step="download", done_bytes=start, total_bytes=total))


def _is_complete(path: Path, sha256: str) -> bool:
    return path.is_file() and sha256_of(path) == sha256


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def require_space(folder: Path, num_bytes: int) -> None:
    """Raises PullError unless `num_bytes` and a little more are free."""
    free = shutil.disk_usage(folder).free
    if free < num_bytes + 16 * 1024 * 1024:
        raise PullError(f"{folder} has {free >> 20} MiB free, but {num_bytes >> 20} MiB more are needed")


@contextmanager
def reporting_full_disk(folder: Path) -> Iterator[None]:
    """Turn a write error into a PullError with a sentence."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise PullError(f"the disk that holds {folder} is full") from None
        raise PullError(f"{folder} cannot be written to: {error}") from None


def publish(part: Path, target: Path) -> None:
    """Give a finished file its name: all of it or nothing, also after a power cut."""
    with part.open("rb") as file:
        os.fsync(file.fileno())
    os.replace(part, target)
