"""The header in front of a stored KV page: what the page is, in full, so that a reader need not trust its name.

All fields have a fixed place, little-endian; texts stand as their BLAKE2b digests. So whoever knows which page he wants
knows each byte that its header must have, and compares them at once; fields are looked at only to say what differs.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from services.engine.kv.miss_cause import MissCause
from stagemesh.runtime.kv_keys import DIGEST_BYTES, PAGE_TOKENS

MAGIC = b"SMKVPAGE"
VERSION = 1
DTYPES = {"bfloat16": 0, "int8": 1}

_FIELDS: tuple[tuple[str, MissCause], ...] = (
    ("8s", MissCause.BAD_MAGIC),
    ("I", MissCause.OTHER_VERSION),
    ("I", MissCause.OTHER_LAYOUT),  # bytes of the payload
    ("16s", MissCause.BAD_CHECKSUM),  # of all that follows
    ("32s", MissCause.OTHER_TENANT),
    ("Q", MissCause.OTHER_EPOCH),
    ("32s", MissCause.OTHER_REVISION),
    ("32s", MissCause.OTHER_TOKENIZER),
    ("32s", MissCause.OTHER_PRECISION),
    ("32s", MissCause.OTHER_ADAPTER),
    ("32s", MissCause.OTHER_ENGINE),
    ("I", MissCause.OTHER_DTYPE),
    ("4I", MissCause.OTHER_LAYOUT),  # tokens, layers, KV heads, dimensions
    ("32s", MissCause.OTHER_PARENT),
    ("64s", MissCause.OTHER_TOKENS),
    ("32s", MissCause.OTHER_KEY),
    ("4x", MissCause.OTHER_LAYOUT),  # zeros: payloads begin at a multiple of 64 bytes
)
_OFFSETS = tuple(struct.calcsize("<" + "".join(code for code, _ in _FIELDS[:count])) for count in range(len(_FIELDS)))
HEADER_BYTES = struct.calcsize("<" + "".join(code for code, _ in _FIELDS))
CHECKSUM_AT, CHECKED_FROM = _OFFSETS[3], _OFFSETS[4]
_START, _ORIGIN = struct.Struct("<8sII"), struct.Struct("<32sQ32s32s32s32s32sI4I")
_TOKENS = struct.Struct(f"<{PAGE_TOKENS}I")


@dataclass(frozen=True, kw_only=True)
class PageOrigin:
    """Whose pages they are and what computed them: the same for all pages under one lease, of one mode."""

    tenant_id: str
    """Empty in the public scope."""
    epoch: int
    revision: str
    tokenizer_hash: str
    precision: str
    engine_version: str
    """Changes when the engine computes other numbers from the same weights."""
    adapter: str = ""
    """With its generation."""


@dataclass(frozen=True, kw_only=True)
class PageLayout:
    """The form of the payload, as `PageIo` writes it."""

    dtype: str
    """Of DTYPES."""
    num_layers: int
    num_kv_heads: int
    head_dim: int

    @property
    def payload_bytes(self) -> int:
        rows = 2 * self.num_layers * self.num_kv_heads * PAGE_TOKENS
        return rows * (self.head_dim + 2 if self.dtype == "int8" else 2 * self.head_dim)


@dataclass(frozen=True)
class PageName:
    """One page of a chain; see `page_digests`."""

    digest: bytes
    tokens: Sequence[int]
    """PAGE_TOKENS of them."""
    parent: bytes = b""
    """Digest of the page before it; empty for the first."""


def header_start(layout: PageLayout) -> bytes:
    """What stands before the checksum."""
    return _START.pack(MAGIC, VERSION, layout.payload_bytes)


def header_origin(origin: PageOrigin, layout: PageLayout) -> bytes:
    """What follows the checksum and is the same for many pages."""
    shape = (PAGE_TOKENS, layout.num_layers, layout.num_kv_heads, layout.head_dim)
    texts = (origin.revision, origin.tokenizer_hash, origin.precision, origin.adapter, origin.engine_version)
    digests = map(_digest, texts)
    return _ORIGIN.pack(_digest(origin.tenant_id), origin.epoch, *digests, DTYPES[layout.dtype], *shape)


def header_name(name: PageName) -> bytes:
    """The rest."""
    assert len(name.digest) == DIGEST_BYTES, len(name.digest)
    return name.parent.ljust(DIGEST_BYTES, b"\0") + _TOKENS.pack(*name.tokens) + name.digest + bytes(4)


def first_difference(header: bytes, wanted: bytes) -> MissCause:
    """What says that an undamaged page is another than the wanted one."""
    assert len(header) == len(wanted) == HEADER_BYTES, (len(header), len(wanted))
    ends = (*_OFFSETS[1:], HEADER_BYTES)
    for (_, cause), start, end in zip(_FIELDS, _OFFSETS, ends, strict=True):
        if start >= CHECKED_FROM and header[start:end] != wanted[start:end]:
            return cause
    return MissCause.OTHER_LAYOUT  # the payload's size alone, which follows from the rest


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=DIGEST_BYTES).digest()
