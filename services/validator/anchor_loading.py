"""One load of an anchor set: keys to the ledger and to a file, an index from the file, then both in force at once."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Sequence
from pathlib import Path

from stagemesh.api.validator.v1 import anchor_sets_pb2
from stagemesh.runtime.errors import Exhausted, InvalidRequest
from stagemesh.runtime.tenants import check_tenant_id
from stagemesh.validation.forms import form_of
from stagemesh.validation.sets.builder import build, head
from stagemesh.validation.sets.manifest import Manifest, check_set_name
from stagemesh.validation.sets.sets import AnchorSets

CHUNK_BYTES = 1_000_000
MAX_EDITS = 2


class AnchorLoading:
    """Raises InvalidRequest for a bad name or key, Exhausted for too many keys, Unavailable without the store."""

    def __init__(self, sets: AnchorSets, begin: anchor_sets_pb2.LoadBegin) -> None:
        check_tenant_id(begin.tenant_id)
        self._tenant_id, self._name = begin.tenant_id, check_set_name(begin.name)
        self._ignore_case = begin.ignore_case
        self._max_edits = begin.max_edits if begin.HasField("max_edits") else 1
        if self._max_edits > MAX_EDITS:
            raise InvalidRequest("INVALID_ANCHOR", f"max_edits is 0 to {MAX_EDITS}", field="begin.max_edits")
        self._sets, self._config = sets, sets.config
        self._token = secrets.token_hex(12)
        self._source = sets.copies.folder / f"{self._token}.keys"
        self._buffer = b""
        self._num_chunks = self._stored_bytes = self.num_keys = self._key_bytes = 0

    async def add(self, keys: Sequence[str]) -> None:
        first = self.num_keys + 1
        self.num_keys += len(keys)
        self._key_bytes += sum(len(key.encode()) for key in keys)
        if self.num_keys > self._config.max_keys or self._key_bytes > self._config.max_set_bytes:
            raise Exhausted(
                "ANCHOR_SET_TOO_LARGE",
                f"a set may have {self._config.max_keys:,} keys and {self._config.max_set_bytes:,} bytes of them",
            )
        self._buffer += await asyncio.to_thread(_lines, keys, first, self._config.max_key_chars)
        if len(self._buffer) >= CHUNK_BYTES:
            await self._flush()

    async def finish(self) -> Manifest:
        """Build, publish, and take the index as this process's own."""
        if not self.num_keys:
            raise InvalidRequest("INVALID_ANCHOR", "give at least one key", field="keys")
        await self._flush()
        built = self._source.with_suffix(".idx")
        try:
            num_different = await build(self._source, built, self._config)
            manifest = Manifest(
                name=self._name,
                generation=0,
                keys=num_different,
                repeated_keys=self.num_keys - num_different,
                key_bytes=self._key_bytes,
                stored_bytes=self._stored_bytes,
                ignore_case=self._ignore_case,
                max_edits=self._max_edits,
                token=self._token,
                chunks=self._num_chunks,
                updated_ms=time.time_ns() // 1_000_000,
            )
            published = await self._sets.store.publish(self._tenant_id, manifest, self._config.max_sets)
        except BaseException:
            built.unlink(missing_ok=True)
            raise
        self._sets.copies.adopt(self._tenant_id, published, built)
        return published

    def close(self) -> None:
        self._source.unlink(missing_ok=True)

    async def _flush(self) -> None:
        data, self._buffer = self._buffer, b""
        await asyncio.to_thread(self._append, data)
        self._stored_bytes += await self._sets.store.put(self._tenant_id, self._token, self._num_chunks, data)
        self._num_chunks += 1

    def _append(self, data: bytes) -> None:
        _append(self._source, data, head(ignore_case=self._ignore_case, max_edits=self._max_edits))


def _append(path: Path, data: bytes, first_line: bytes) -> None:
    with path.open("ab") as file:
        if not file.tell():
            file.write(first_line)
        file.write(data)


def _lines(keys: Sequence[str], first: int, max_chars: int) -> bytes:
    """A key a line, as JSON. Raises InvalidRequest."""
    for number, key in enumerate(keys, start=first):
        if not 0 < len(key) <= max_chars or not form_of(key):
            message = f"key {number:,} must have 1 to {max_chars} characters that are not only spaces"
            raise InvalidRequest("INVALID_ANCHOR", message, field="keys")
    return "".join(json.dumps(key, ensure_ascii=False) + "\n" for key in keys).encode()
