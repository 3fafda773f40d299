"""Messages as they come in a request, checked and ready for a chat template."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from services.tokenizer.text_limits import check_text
from stagemesh.api.common.v1 import common_pb2
from stagemesh.runtime.errors import InvalidRequest

ROLES = ("system", "developer", "user", "assistant", "tool")


@dataclass(frozen=True)
class Message:
    role: str
    content: str
    name: str = ""


def read_messages(messages: Iterable[common_pb2.ChatMessage], *, max_bytes: int, max_messages: int) -> list[Message]:
    """Raises InvalidRequest EMPTY_MESSAGES, TOO_MANY_MESSAGES, UNKNOWN_ROLE, INVALID_TEXT or PROMPT_TOO_LARGE."""
    read = [Message(message.role, message.content, message.name) for message in messages]
    if not read:
        raise InvalidRequest("EMPTY_MESSAGES", "send at least one message", field="messages")
    if len(read) > max_messages:
        raise InvalidRequest(
            "TOO_MANY_MESSAGES", f"{len(read)} messages exceed the limit of {max_messages}", field="messages"
        )
    for index, message in enumerate(read):
        if message.role not in ROLES:
            raise InvalidRequest(
                "UNKNOWN_ROLE",
                f"message {index} has the role {message.role[:64]!r}; known are {', '.join(ROLES)}",
                field=f"messages[{index}].role",
            )
    check_text((text for message in read for text in (message.content, message.name)), max_bytes, "messages")
    return read


def turn_starts(messages: Sequence[Message]) -> list[int]:
    """How many non-system messages can be cut, oldest first, so that what is left begins with a user's message.

    Always begins with 0; the last turn is never cut.
    """
    roles = [message.role for message in messages if not is_system(message)]
    return [0, *(index for index, role in enumerate(roles) if index > 0 and role == "user")]


def without_oldest(messages: Sequence[Message], num_cut: int) -> list[Message]:
    """All system messages, and the others but the `num_cut` oldest."""
    kept, left = [], num_cut
    for message in messages:
        if not is_system(message) and left > 0:
            left -= 1
        else:
            kept.append(message)
    return kept


def is_system(message: Message) -> bool:
    return message.role in {"system", "developer"}
