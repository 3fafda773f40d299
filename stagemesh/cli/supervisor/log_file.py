"""Logs of bounded size: `engine-1.log`, and `engine-1.log.1` (younger) to `.N` (older)."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType

OWN_LINE = "supervisor: "
"""Begins the lines that the supervisor adds to a process's log."""


class LogFile:
    """An append-only file that is rotated before it would grow beyond `max_bytes`.

    A full disk does not stop its writer: what cannot be written is counted, and told when there is room again.
    """

    def __init__(self, path: Path, *, max_bytes: int, num_old: int) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._num_old = num_old
        self._file = path.open("ab", buffering=0)
        self._num_lost_bytes = 0
        self._is_cut = False
        """Whether what was written last ends in the middle."""

    def write(self, data: bytes) -> None:
        if self._num_lost_bytes:
            told = f"{OWN_LINE}{self._num_lost_bytes} bytes could not be written here\n".encode()
            if self._append_all(b"\n" + told if self._is_cut else told):  # what came of it is a line by itself
                self._num_lost_bytes += len(data)
                return
            self._num_lost_bytes = 0
        self._num_lost_bytes += self._append_all(data)

    def _append_all(self, data: bytes) -> int:
        """How many bytes could not be written: a disk may fill up in their middle."""
        num_written = 0
        with suppress(OSError):
            while num_written < len(data):
                num_written += self._append(data[num_written:])
        if num_written:
            self._is_cut = num_written < len(data)
        return len(data) - num_written

    def _append(self, data: bytes) -> int:
        if self._file.tell() + len(data) > self._max_bytes and self._file.tell():
            self._rotate()
        return self._file.write(data)

    def write_line(self, text: str) -> None:
        """A line of the supervisor's own between those of the process."""
        self.write(f"{OWN_LINE}{text}\n".encode())

    async def copy_from(self, stream: asyncio.StreamReader) -> None:
        """Write what arrives until the other end is closed."""
        while data := await stream.read(65_536):
            self.write(data)

    def _rotate(self) -> None:
        for index in range(self._num_old, 0, -1):
            older = old_log(self.path, index)
            younger = old_log(self.path, index - 1) if index > 1 else self.path
            if younger.exists():
                os.replace(younger, older)
        fresh = self.path.open("wb" if self._num_old == 0 else "ab", buffering=0)
        self._file.close()
        self._file = fresh

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> LogFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def old_log(path: Path, index: int) -> Path:
    """The rotated log number `index` beside `path`; 1 is the youngest."""
    return path.with_name(f"{path.name}.{index}")


def last_lines(path: Path, num_lines: int) -> list[str]:
    """The last lines of a log, reaching back into the rotated ones; [] where there is none."""
    lines: list[str] = []
    index = 0
    while len(lines) < num_lines:
        source = old_log(path, index) if index else path
        if not source.exists():
            break
        lines = source.read_text(encoding="utf-8", errors="replace").splitlines() + lines
        index += 1
    return lines[-num_lines:] if num_lines else []
