"""Up to millions of keys in one file that is mapped into memory, found exactly or one or two edits away.

Every process that maps the file shares its pages, so a sandboxed child that checks a text copies nothing.

A key is entered under the 32-bit hash of its form and of every form with one character deleted. Two texts that are at
most one edit apart (a character inserted, deleted or changed, or two neighbours swapped) have one of these hashes in
common, so a lookup takes as many binary searches as the text has characters, and compares the few keys that it finds.
Two edits are searched for by signatures of all keys of about the same length: an edit changes few characters and few
pairs of neighbours, so what differs in more of them is left out, and the others are compared.

File: MAGIC, the sizes as JSON in a line, padding; then the arrays of ARRAYS, each from a multiple of ALIGN bytes on.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import OSA

from stagemesh.validation.anchor_hashes import U64, codes_of, deletion_hashes, signature
from stagemesh.validation.anchor_match import MAX_NEAR, Found, Match, may_be_edited
from stagemesh.validation.forms import form_of

MAGIC = b"stagemesh-anchors-1\n"
ALIGN = 64
MAX_HEAD_BYTES = 4_096
MAX_COMPARED = 4_000
"""Keys that are compared with one value within one edit; where more share its hashes, none is suggested."""
MAX_SIMILAR = 20_000
"""The same within two edits."""
CHARS_PER_EDIT, PAIRS_PER_EDIT = 2, 6
"""Parities that an edit changes at most: a swap keeps the characters, and changes three pairs into three others."""

ARRAYS: dict[str, np.dtype[Any]] = {
    "table": np.dtype("<u8"),  # sorted: hash << 32 | number of the key
    "chars": np.dtype("<u8"),  # signatures by key
    "pairs": np.dtype("<u8"),
    "lengths": np.dtype("<u2"),  # characters of the form, by key; ascending
    "starts": np.dtype("<u4"),  # of forms, in bytes; one more than there are keys
    "forms": np.dtype("<u1"),
    "odd": np.dtype("<u4"),  # numbers of the keys that are not their own form, ascending
    "odd_starts": np.dtype("<u4"),
    "odd_keys": np.dtype("<u1"),
}
"""In the order in which they lie in the file."""
_LOW = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True, kw_only=True)
class IndexMeta:
    keys: int
    ignore_case: bool
    max_edits: int
    seed: int


class AnchorIndex:
    """Over the arrays of ARRAYS, in memory or in a mapped file."""

    def __init__(self, meta: IndexMeta, arrays: dict[str, npt.NDArray[Any]]) -> None:
        self._arrays = arrays
        self._table: U64 = arrays["table"]
        self._seed = meta.seed
        self._longest = int(arrays["lengths"][-1]) if meta.keys else 0
        self.num_keys, self.ignore_case, self.max_edits = meta.keys, meta.ignore_case, meta.max_edits

    @classmethod
    def open(cls, path: Path) -> AnchorIndex:
        """A built index, mapped. Raises OSError or ValueError for what is none."""
        data: npt.NDArray[np.uint8] = np.memmap(path, np.uint8, "r").view(np.ndarray)
        head = bytes(data[:MAX_HEAD_BYTES])
        if not head.startswith(MAGIC):
            raise ValueError(f"{path.name} is no anchor index")
        meta: dict[str, Any] = json.loads(head[len(MAGIC) :].split(b"\n", 1)[0])
        sizes: dict[str, int] = meta.pop("sizes")
        at = aligned(head.index(b"\n", len(MAGIC)) + 1)
        arrays: dict[str, npt.NDArray[Any]] = {}
        for name, dtype in ARRAYS.items():
            size = sizes[name] * dtype.itemsize
            arrays[name] = data[at : at + size].view(dtype)
            at = aligned(at + size)
        return cls(IndexMeta(**meta), arrays)

    @property
    def num_bytes(self) -> int:
        return sum(array.nbytes for array in self._arrays.values())

    def __len__(self) -> int:
        return self.num_keys

    def lookup(self, value: str) -> Found:
        form = self._fold(form_of(value))
        if len(form) > self._longest + self.max_edits:
            return Found(Match.UNKNOWN)  # also what would be too long to be hashed
        codes = codes_of(form)
        hashes = deletion_hashes(codes, self._seed)
        if same := self._same_form(form, hashes[:1]):
            wanted = self._fold(value)
            exact = next((key for key in map(self.key, same) if self._fold(key) == wanted), None)
            return Found.of([self.key(n) for n in same[:MAX_NEAR]]) if exact is None else Found(Match.EXACT, (exact,))
        if not may_be_edited(form):
            return Found(Match.UNKNOWN)
        for edits in range(1, self.max_edits + 1):
            numbers = self._under(hashes, MAX_COMPARED) if edits == 1 else self._similar(form, codes, edits)
            if numbers is None:
                return Found(Match.AMBIGUOUS)
            if near := [n for n in numbers if OSA.distance(self._form_at(n), form, score_cutoff=edits) <= edits]:
                return Found.of([self.key(number) for number in near[:MAX_NEAR]])
        return Found(Match.UNKNOWN)

    def key(self, number: int) -> str:
        """A key as it was given."""
        odd, starts = self._arrays["odd"], self._arrays["odd_starts"]
        at = int(np.searchsorted(odd, number)) if odd.size else 0
        if at < odd.size and int(odd[at]) == number:
            return bytes(self._arrays["odd_keys"][int(starts[at]) : int(starts[at + 1])]).decode()
        return self._form_at(number)

    def some(self, count: int, first: int = 0) -> tuple[str, ...]:
        """Keys from one on, in the order of the index: shorter ones first."""
        return tuple(self.key(number) for number in range(first, min(first + count, self.num_keys)))

    def spread(self, count: int) -> tuple[str, ...]:
        """At most that many keys, from all over the set."""
        step = -(-self.num_keys // count)
        return tuple(self.key(number) for number in range(0, self.num_keys, step))

    def _same_form(self, form: str, hashes: U64) -> list[int]:
        return [number for number in self._under(hashes, self.num_keys) or () if self._form_at(number) == form]

    def _under(self, hashes: U64, most: int) -> list[int] | None:
        """The keys under the hashes, each once; None where they are more than `most`."""
        low_keys = hashes << np.uint64(32)
        lows = np.searchsorted(self._table, low_keys)
        highs = np.searchsorted(self._table, low_keys | _LOW, side="right")
        if int((highs - lows).sum()) > most:
            return None
        found: set[int] = set()
        for low, high in zip(lows.tolist(), highs.tolist(), strict=True):
            if low < high:
                found.update((self._table[low:high] & _LOW).tolist())
        return sorted(found)

    def _similar(self, form: str, codes: npt.NDArray[np.uint32], edits: int) -> list[int] | None:
        """The keys of about the same length with about the same characters and pairs; None where they are too many."""
        lengths = self._arrays["lengths"]
        low = int(np.searchsorted(lengths, max(0, len(form) - edits)))
        high = int(np.searchsorted(lengths, len(form) + edits, side="right"))
        chars, pairs = signature(codes)
        # [high - low]
        alike = np.bitwise_count(self._arrays["chars"][low:high] ^ chars) <= CHARS_PER_EDIT * edits
        numbers = np.flatnonzero(alike)
        close = np.bitwise_count(self._arrays["pairs"][low:high][numbers] ^ pairs) <= PAIRS_PER_EDIT * edits
        numbers = numbers[close]
        found: list[int] = (numbers + low).tolist()
        return found if len(found) <= MAX_SIMILAR else None

    def _form_at(self, number: int) -> str:
        starts = self._arrays["starts"]
        return bytes(self._arrays["forms"][int(starts[number]) : int(starts[number + 1])]).decode()

    def _fold(self, text: str) -> str:
        return text.casefold() if self.ignore_case else text


def aligned(at: int) -> int:
    return ALIGN * -(-at // ALIGN)
