"""Fetching over HTTP from servers that misbehave."""

from __future__ import annotations

import errno
import hashlib
import io
from http.server import BaseHTTPRequestHandler
from itertools import pairwise
from pathlib import Path

import httpx
import pytest
from models_support import http_server, send, send_range

from stagemesh.models import download
from stagemesh.models.download import fetch
from stagemesh.models.errors import PullError
from stagemesh.models.progress import Progress, ignore_progress

BODY = bytes(range(256)) * 8_192  # 2 MiB
SHA256 = hashlib.sha256(BODY).hexdigest()


def no_pause(seconds: float) -> None:
    """For tests that do not wait."""


def fetch_from(url: str, part: Path, sha256: str = SHA256, seen: list[Progress] | None = None) -> None:
    with httpx.Client(timeout=10) as client:
        fetch(client, url, part, sha256, ignore_progress if seen is None else seen.append, no_pause)


def test_a_broken_connection_is_resumed_where_it_broke(tmp_path: Path) -> None:
    seen: list[Progress] = []
    with http_server({"/f": lambda handler: send_range(handler, BODY, break_after=700_000)}) as (url, asked):
        fetch_from(f"{url}/f", tmp_path / "f.part", seen=seen)
    assert (tmp_path / "f.part").read_bytes() == BODY
    offsets = [int(range_.removeprefix("bytes=").rstrip("-") or 0) for _, range_ in asked]
    assert len(offsets) >= 3
    assert all(later > earlier for earlier, later in pairwise(offsets)), "no byte is fetched twice"
    assert seen[-1] == Progress(step="download", done_bytes=len(BODY), total_bytes=len(BODY))


def test_an_interrupted_run_is_continued_by_the_next(tmp_path: Path) -> None:
    part = tmp_path / "f.part"
    part.write_bytes(BODY[:1_000_000])
    with http_server({"/f": lambda handler: send_range(handler, BODY)}) as (url, asked):
        fetch_from(f"{url}/f", part)
    assert part.read_bytes() == BODY
    assert asked == [("/f", "bytes=1000000-")]


def test_a_complete_part_needs_no_server(tmp_path: Path) -> None:
    (tmp_path / "f.part").write_bytes(BODY)
    fetch_from("http://127.0.0.1:1/f", tmp_path / "f.part")


def test_a_server_without_ranges_starts_over(tmp_path: Path) -> None:
    part = tmp_path / "f.part"
    part.write_bytes(b"x" * 1_000)
    with http_server({"/f": lambda handler: send(handler, BODY)}) as (url, _):
        fetch_from(f"{url}/f", part)
    assert part.read_bytes() == BODY


def test_a_part_longer_than_the_file_is_thrown_away(tmp_path: Path) -> None:
    part = tmp_path / "f.part"
    part.write_bytes(BODY + b"more")
    with http_server({"/f": lambda handler: send_range(handler, BODY)}) as (url, _):
        fetch_from(f"{url}/f", part)
    assert part.read_bytes() == BODY


def test_wrong_bytes_are_refused_and_not_kept(tmp_path: Path) -> None:
    part = tmp_path / "f.part"
    with (
        http_server({"/f": lambda handler: send(handler, b"something else")}) as (url, _),
        pytest.raises(PullError, match="other bytes than expected"),
    ):
        fetch_from(f"{url}/f", part)
    assert not part.exists()


def test_a_server_that_brings_nothing_is_given_up_and_what_came_is_kept(tmp_path: Path) -> None:
    part = tmp_path / "f.part"
    part.write_bytes(BODY[:500])
    with (
        http_server({"/f": lambda handler: send_range(handler, BODY, break_after=0)}) as (url, asked),
        pytest.raises(PullError, match="500 bytes are kept"),
    ):
        fetch_from(f"{url}/f", part)
    assert len(asked) == download.MAX_BARREN_ATTEMPTS
    assert part.stat().st_size == 500


def test_errors_of_the_server_are_retried_but_refusals_are_not(tmp_path: Path) -> None:
    answers = [503, 429, 200]

    def moody(handler: BaseHTTPRequestHandler) -> None:
        status = answers.pop(0)
        if status == 200:
            send_range(handler, BODY)
        else:
            handler.send_error(status)

    with http_server({"/f": moody}) as (url, asked):
        fetch_from(f"{url}/f", tmp_path / "f.part")
        assert len(asked) == 3
        with pytest.raises(PullError, match="status 404"):
            fetch_from(f"{url}/gone", tmp_path / "g.part")
        assert len(asked) == 4


def test_a_full_disk_is_said_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage:
        free = 1_000

    monkeypatch.setattr(download.shutil, "disk_usage", lambda folder: Usage)
    with (
        http_server({"/f": lambda handler: send_range(handler, BODY)}) as (url, _),
        pytest.raises(PullError, match="0 MiB free, but 2 MiB more are needed"),
    ):
        fetch_from(f"{url}/f", tmp_path / "f.part")


def test_a_disk_that_fills_up_meanwhile_is_said_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class FullFile(io.FileIO):
        def write(self, data: object) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "open", lambda path, mode: FullFile(path, mode))
    with (
        http_server({"/f": lambda handler: send_range(handler, BODY)}) as (url, _),
        pytest.raises(PullError, match="is full"),
    ):
        fetch_from(f"{url}/f", tmp_path / "f.part")
