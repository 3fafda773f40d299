"""Tokens that must be right: digits, currency, units, and IDs that an operator lists in a file, which may change.

One entry a line; empty lines and lines that begin with `#` say nothing. A token is sensitive when it contains an entry,
or when it is a part of one, at least three bytes long. A line that cannot be used is named in the log and left out.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from services.engine.logits import Row
from services.engine.vocabulary import Vocabulary
from stagemesh.runtime.telemetry import get_logger

log = get_logger(__name__)

MAX_FILE_BYTES = 65_536
MAX_ENTRY_BYTES = 64
MIN_PART_BYTES = 3
CHECK_INTERVAL_S = 1.0
DIGITS = tuple("0123456789")


class SensitiveTokens:
    """Which tokens a file and a list name at this moment."""

    def __init__(self, vocabulary: Vocabulary, entries: Iterable[str], file: Path | None, min_margin: float) -> None:
        """Tokens whose logit leads by less than `min_margin` are sensitive whatever they are."""
        self._vocabulary = vocabulary
        self._entries = [*DIGITS, *entries]
        self._file = file
        self._min_margin = min_margin
        self._checked_s = float("-inf")
        self._seen: tuple[int, int] | None = None
        self._marked = self._mark(self._entries)

    def refresh(self) -> None:
        """Look whether the file has changed, once a second at most; call between steps."""
        now_s = time.monotonic()
        if self._file is None or now_s - self._checked_s < CHECK_INTERVAL_S:
            return
        self._checked_s = now_s
        try:
            seen = _version(self._file)
            if seen == self._seen:
                return
            entries = read_entries(self._file) if seen else []
        except OSError as error:  # what was read before stays in force, and the file is looked at again
            log.warning("sensitive tokens not read", file=str(self._file), error=str(error))
            return
        self._seen = seen
        self._marked = self._mark([*self._entries, *entries])

    def is_sensitive(self, row: Row) -> bool:
        """Whether one of the two likeliest tokens of `row` [V] is marked, or they are too near to each other."""
        first, second = two_best(row)
        margin = float(row[first] - row[second])
        return margin < self._min_margin or self._is_marked(first) or self._is_marked(second)

    def _is_marked(self, token: int) -> bool:
        return token < len(self._marked) and bool(self._marked[token])  # a model may have more rows than tokens

    def _mark(self, entries: Iterable[str]) -> npt.NDArray[np.bool_]:
        wanted = [entry.encode() for entry in entries]
        contains = re.compile(b"|".join(map(re.escape, wanted)))
        parts = {
            entry[start:end]
            for entry in wanted
            for start in range(len(entry))
            for end in range(start + MIN_PART_BYTES, len(entry) + 1)
        }
        texts = (text.strip() for text in self._vocabulary.token_bytes)
        marked = [text in parts or contains.search(text) is not None for text in texts]
        return np.array([*marked, False], dtype=np.bool_)[:-1]


def _version(file: Path) -> tuple[int, int] | None:
    """Changes with the file; None where there is none. Raises OSError."""
    try:
        status = file.stat()
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_size


def read_entries(file: Path) -> list[str]:
    """The usable lines. What cannot be used is told in the log, by the line's number. Raises OSError."""
    with file.open("rb") as stream:
        text = stream.read(MAX_FILE_BYTES + 1)
    if len(text) > MAX_FILE_BYTES:
        log.warning("sensitive tokens cut", file=str(file), max_bytes=MAX_FILE_BYTES)
        text = text[:MAX_FILE_BYTES].rpartition(b"\n")[0]
    entries = []
    for number, line in enumerate(text.splitlines(), start=1):
        entry = line.strip()
        if not entry or entry.startswith(b"#"):
            continue
        try:
            entries.append(entry.decode())
        except UnicodeDecodeError:
            log.warning("sensitive token not used: not UTF-8", file=str(file), line=number)
            continue
        if len(entry) > MAX_ENTRY_BYTES:
            log.warning("sensitive token not used: too long", file=str(file), line=number, max_bytes=MAX_ENTRY_BYTES)
            entries.pop()
    return entries


def two_best(row: Row) -> tuple[int, int]:
    """Token IDs, the likeliest first, the lower of equals.

    Looking for the largest twice takes a tenth of the time of a partition.
    """
    first = int(row.argmax())
    before, after = row[:first], row[first + 1 :]
    if not len(before):
        return first, 1 + int(after.argmax())
    second = int(before.argmax())
    if len(after) and after[(last := int(after.argmax()))] > before[second]:
        second = first + 1 + last
    return first, second
