"""Builds the file of an anchor set: `python -m stagemesh.validation.anchor_build KEYS INDEX MEMORY_BYTES`.

KEYS holds a JSON object with `ignore_case` and `max_edits` in its first line, then one key as a JSON string a line.
It prints how many different keys there are. It runs as a process of its own, because a million keys take seconds.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import secrets
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from stagemesh.validation.anchor_hashes import MAX_CHARS, U64, all_hashes, signatures
from stagemesh.validation.anchor_index import ALIGN, ARRAYS, MAGIC, AnchorIndex, IndexMeta, aligned
from stagemesh.validation.forms import form_of

MAX_EDITS = 2
CHUNK_CODES = 1 << 21
"""Characters that are hashed at once."""


def build(keys: Sequence[str], path: Path, *, ignore_case: bool, max_edits: int) -> None:
    """Write the index of `keys`, which differ, to `path`, whole or not at all."""
    _write(path, *_built(keys, ignore_case=ignore_case, max_edits=max_edits))


def build_here(keys: Sequence[str], *, ignore_case: bool, max_edits: int) -> AnchorIndex:
    """The index of `keys`, which differ, in memory."""
    return AnchorIndex(*_built(keys, ignore_case=ignore_case, max_edits=max_edits))


def _built(keys: Sequence[str], *, ignore_case: bool, max_edits: int) -> tuple[IndexMeta, dict[str, npt.NDArray[Any]]]:
    forms = [form_of(key) for key in keys]
    if ignore_case:
        forms = [form.casefold() for form in forms]
    if max(map(len, forms), default=0) > MAX_CHARS - MAX_EDITS:
        raise ValueError(f"a key has more than {MAX_CHARS - MAX_EDITS} characters in its compatibility form")
    order = sorted(range(len(keys)), key=lambda number: len(forms[number]))
    forms = [forms[number] for number in order]
    seed = secrets.randbits(63)
    arrays = {**_hashed(forms, seed), **_texts(forms, [keys[number] for number in order])}
    return IndexMeta(keys=len(keys), ignore_case=ignore_case, max_edits=max_edits, seed=seed), arrays


def _hashed(forms: Sequence[str], seed: int) -> dict[str, npt.NDArray[Any]]:
    num_entries = sum(len(form) + 1 for form in forms)
    table, chars, pairs = (
        np.empty(num_entries, np.uint64),
        np.empty(len(forms), np.uint64),
        np.empty(len(forms), np.uint64),
    )
    filled = 0
    for low, codes in _by_length(forms):
        high = low + codes.shape[0]
        chars[low:high], pairs[low:high] = signatures(codes)
        numbers = np.arange(low, high, dtype=np.uint64)
        full, deleted, is_first = all_hashes(codes, seed)
        for entries in (_entries(full, numbers), _entries(deleted, numbers[:, None])[is_first]):
            table[filled : filled + entries.size] = entries
            filled += entries.size
    table = table[:filled]
    table.sort()
    lengths = np.fromiter(map(len, forms), np.uint16, len(forms))
    return {"table": table, "chars": chars, "pairs": pairs, "lengths": lengths}


def _entries(hashes: U64, numbers: U64) -> U64:
    return (hashes << np.uint64(32)) | numbers


def _by_length(forms: Sequence[str]) -> Iterator[tuple[int, npt.NDArray[np.uint32]]]:
    """Runs of forms of one length: the number of the first, and their characters, [N, L]."""
    low = 0
    while low < len(forms):
        length = len(forms[low])
        high = low + 1
        most = low + max(1, CHUNK_CODES // max(1, length))
        while high < len(forms) and high < most and len(forms[high]) == length:
            high += 1
        codes = np.frombuffer("".join(forms[low:high]).encode("utf-32-le"), "<u4").reshape(high - low, length)
        yield low, codes
        low = high


def _texts(forms: Sequence[str], keys: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    odd = [number for number, (form, key) in enumerate(zip(forms, keys, strict=True)) if form != key]
    starts, blob = _packed(forms)
    odd_starts, odd_keys = _packed([keys[number] for number in odd])
    return {
        "starts": starts,
        "forms": blob,
        "odd": np.array(odd, np.uint32),
        "odd_starts": odd_starts,
        "odd_keys": odd_keys,
    }


def _packed(texts: Sequence[str]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint8]]:
    encoded = [text.encode() for text in texts]
    starts = np.zeros(len(encoded) + 1, np.uint32)
    np.cumsum(np.fromiter(map(len, encoded), np.uint32, len(encoded)), out=starts[1:])
    return starts, np.frombuffer(b"".join(encoded), np.uint8)


def _write(path: Path, meta: IndexMeta, arrays: dict[str, npt.NDArray[Any]]) -> None:
    partial = path.with_suffix(".partial")
    sizes = {name: int(array.size) for name, array in arrays.items()}
    head = MAGIC + json.dumps({**asdict(meta), "sizes": sizes}).encode() + b"\n"
    with partial.open("wb") as file:
        file.write(head.ljust(aligned(len(head)), b"\0"))
        for name, dtype in ARRAYS.items():
            array = np.ascontiguousarray(arrays[name], dtype)
            file.write(array.data)
            file.write(b"\0" * (-array.nbytes % ALIGN))
    os.replace(partial, path)


def main() -> None:
    source, target, memory_bytes = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    with contextlib.suppress(OSError, ValueError):  # macOS refuses it
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    with source.open(encoding="utf-8") as lines:
        meta = json.loads(next(lines))
        keys = list(dict.fromkeys(json.loads(line) for line in lines))
    build(keys, target, ignore_case=meta["ignore_case"], max_edits=meta["max_edits"])
    sys.stdout.write(str(len(keys)))


if __name__ == "__main__":
    main()
