"""How messages and tokens lie in Redis."""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterable, Sequence

from stagemesh.api.common.v1.common_pb2 import ChatMessage, ChatMessages


def pack_messages(messages: Sequence[ChatMessage]) -> bytes:
    """u32 little endian number of messages, then a `ChatMessages`; nothing for no messages."""
    return struct.pack("<I", len(messages)) + ChatMessages(messages=messages).SerializeToString() if messages else b""


def pack_tokens(token_ids: Iterable[int]) -> bytes:
    """u32 little endian each."""
    return _little_endian(array("I", token_ids)).tobytes()


def unpack_tokens(data: bytes) -> Sequence[int]:
    tokens = array("I")
    tokens.frombytes(data)
    return _little_endian(tokens)


def _little_endian(tokens: array[int]) -> array[int]:
    if sys.byteorder == "big":
        tokens.byteswap()
    return tokens
