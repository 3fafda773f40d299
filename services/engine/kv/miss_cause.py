"""Why a page that might have been loaded was computed instead."""

from __future__ import annotations

from enum import StrEnum


class MissCause(StrEnum):
    """The first group is what the bytes of a stored page say. A miss is counted by its cause and never an error."""

    TRUNCATED = "TRUNCATED"
    """Fewer bytes than its header says, or than a header has."""
    TRAILING_BYTES = "TRAILING_BYTES"
    """More bytes than its header says."""
    BAD_MAGIC = "BAD_MAGIC"
    """Not a stored page at all."""
    OTHER_VERSION = "OTHER_VERSION"
    """A stored page of another version of this format."""
    BAD_CHECKSUM = "BAD_CHECKSUM"
    """Damaged: header or numbers are not those that were stored."""
    OTHER_TENANT = "OTHER_TENANT"
    OTHER_EPOCH = "OTHER_EPOCH"
    """Stored before what its tenant had was forgotten."""
    OTHER_KEY = "OTHER_KEY"
    """A page that belongs under another name."""
    OTHER_PARENT = "OTHER_PARENT"
    OTHER_TOKENS = "OTHER_TOKENS"
    OTHER_REVISION = "OTHER_REVISION"
    """Of a model with other weights."""
    OTHER_TOKENIZER = "OTHER_TOKENIZER"
    OTHER_PRECISION = "OTHER_PRECISION"
    """Computed in another mode."""
    OTHER_ADAPTER = "OTHER_ADAPTER"
    OTHER_ENGINE = "OTHER_ENGINE"
    """Computed by another version of the engine."""
    OTHER_DTYPE = "OTHER_DTYPE"
    """In bfloat16 where 8 bits are wanted, or the other way round."""
    OTHER_LAYOUT = "OTHER_LAYOUT"
    """Of a model of another shape."""
    NOT_FINITE = "NOT_FINITE"
    """Holds a NaN or an infinity."""
