"""Documents of a knowledge base and the shards they lie in, as the command and the cache service both compute them.

A document falls into one of NUM_SHARDS shards by its ID. A shard's digest covers the digests of its documents, so two
sides find what differs by comparing 32 bytes for each shard, and then document by document in those shards alone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from stagemesh.runtime.errors import InvalidRequest
from stagemesh.runtime.kv_keys import netstrings

NUM_SHARDS = 16_384
DIGEST_BYTES = 32
MAX_DOCUMENT_BYTES = 1_048_576
MAX_ID_BYTES = 512
MAX_TITLE_BYTES = 512
NO_BASE = "none"
"""In place of a name: use no knowledge base, not even one that the configuration names."""

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""Neither IDs nor titles hold these: a terminal would obey them."""
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


@dataclass(frozen=True)
class KnowledgeDocument:
    document_id: str
    title: str
    text: str

    @property
    def shard(self) -> int:
        return shard_of(self.document_id)

    def digest(self) -> bytes:
        """DIGEST_BYTES over all that the document says."""
        parts = (self.document_id, self.title, self.text)
        return hashlib.sha256(netstrings(*(part.encode() for part in parts))).digest()


def shard_of(document_id: str) -> int:
    digest = hashlib.blake2b(document_id.encode(), digest_size=4).digest()
    return int.from_bytes(digest, "little") % NUM_SHARDS


def shard_digest(document_digests: Iterable[bytes]) -> bytes:
    """The digest of a shard that holds these documents, in whatever order."""
    return hashlib.sha256(b"".join(sorted(document_digests))).digest()


def check_base_name(name: str) -> str:
    """`name`, if a knowledge base can have it. Raises InvalidRequest."""
    if not _NAME.fullmatch(name) or name == NO_BASE:
        raise InvalidRequest(
            "INVALID_KNOWLEDGE_NAME",
            f"{name[:80]!r} cannot be a knowledge base: use 1 to 63 of a-z, 0-9, '.', '_', '-', a letter or digit "
            f"first, and not {NO_BASE!r}",
            field="knowledge",
        )
    return name


def check_document(document: KnowledgeDocument) -> None:
    """Raises InvalidRequest for a document without ID or text, with too much of either, or with control characters in
    its ID or title."""
    size = len(document.document_id.encode())
    if not 0 < size <= MAX_ID_BYTES or len(document.title.encode()) > MAX_TITLE_BYTES:
        raise InvalidRequest(
            "INVALID_DOCUMENT",
            f"the document {document.document_id[:80]!r} needs an ID of 1 to {MAX_ID_BYTES} bytes and a title of at "
            f"most {MAX_TITLE_BYTES}",
            field="documents",
        )
    if CONTROL.search(document.document_id + document.title):
        raise InvalidRequest(
            "INVALID_DOCUMENT",
            f"the document {document.document_id[:80]!r} has control characters in its ID or title",
            field="documents",
        )
    if not document.text.strip() or len(document.text.encode()) > MAX_DOCUMENT_BYTES:
        raise InvalidRequest(
            "INVALID_DOCUMENT",
            f"the document {document.document_id[:80]!r} needs a text of at most {MAX_DOCUMENT_BYTES:,} bytes",
            field="documents",
        )
