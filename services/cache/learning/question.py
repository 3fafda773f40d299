"""Questions as they are remembered: what was asked, whether it began a conversation, by whom."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from stagemesh.api.common.v1.common_pb2 import ChatMessage
from stagemesh.runtime.kv_directory import Holder

TAG_BYTES = 16
MAX_QUESTION_BYTES = 16_384
"""Longer ones are nobody's question but material, and not remembered."""


@dataclass(frozen=True)
class Question:
    text: str
    begins: bool = False
    """It was the first of its conversation."""
    system: str = ""
    """The system message before it, where it begins one."""

    @property
    def key(self) -> bytes:
        return hashlib.blake2b(self.pack(), digest_size=TAG_BYTES).digest()

    @property
    def holder(self) -> Holder:
        return holder_of(self.key)

    def is_rememberable(self) -> bool:
        return bool(self.text.strip()) and len(self.pack()) <= MAX_QUESTION_BYTES

    def messages(self) -> list[ChatMessage]:
        """How a conversation begins with it."""
        system = [ChatMessage(role="system", content=self.system)] if self.system else []
        return [*system, ChatMessage(role="user", content=self.text)]

    def pack(self) -> bytes:
        return json.dumps([self.text, self.begins, self.system], ensure_ascii=False).encode()


def holder_of(key: bytes) -> Holder:
    """To whom the pages belong that are stored for a question ahead of time: no client's session can have this name."""
    return Holder(session_id=f"\x00warm:{key.hex()}")


def unpack(data: bytes) -> Question:
    """Raises ValueError for anything that is not a packed question."""
    try:
        text, begins, system = json.loads(data)
    except (TypeError, ValueError) as error:
        raise ValueError("not a question") from error
    if not (isinstance(text, str) and isinstance(begins, bool) and isinstance(system, str)):
        raise ValueError("not a question")
    return Question(text, begins, system)


@dataclass(frozen=True)
class Asker:
    """A session and its user, or the session alone."""

    session_id: str
    user_id: str = ""

    @property
    def session_tag(self) -> bytes:
        return tag("session", self.session_id)

    @property
    def user_tag(self) -> bytes:
        return tag("user", self.user_id) if self.user_id else self.session_tag

    @property
    def tags(self) -> bytes:
        return self.session_tag + self.user_tag


def tag(kind: str, name: str) -> bytes:
    return hashlib.blake2b(name.encode(), digest_size=TAG_BYTES, person=kind.encode()).digest()


@dataclass(frozen=True)
class Remembered:
    question: Question
    heat: float
    """A decaying count of how often it was asked."""
    tags: bytes
    """Session and user tags of the last askers, in pairs."""

    @property
    def session_tags(self) -> Sequence[bytes]:
        return [self.tags[at : at + TAG_BYTES] for at in range(0, len(self.tags), 2 * TAG_BYTES)]

    @property
    def num_users(self) -> int:
        return len({self.tags[at : at + TAG_BYTES] for at in range(TAG_BYTES, len(self.tags), 2 * TAG_BYTES)})
