"""How answers look in one of OpenAI's two APIs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2

JsonObject = dict[str, object]

_FINISH_REASONS = {
    common_pb2.FINISH_REASON_STOP: "stop",
    common_pb2.FINISH_REASON_LENGTH: "length",
    common_pb2.FINISH_REASON_ABORT: "abort",
    common_pb2.FINISH_REASON_DEADLINE: "deadline",
    common_pb2.FINISH_REASON_ERROR: "error",
}

MIN_LOGPROB = -9999.0
"""What OpenAI reports for a probability of zero; JSON has no infinity."""


class Shape(Protocol):
    @property
    def id_prefix(self) -> str: ...
    @property
    def whole_object(self) -> str: ...
    @property
    def chunk_object(self) -> str: ...

    def choice(self, index: int, choice: gateway_pb2.Choice) -> JsonObject:
        """A whole answer."""
        ...

    def opening(self, index: int) -> JsonObject | None:
        """The chunk before the first text, where the API has one."""
        ...

    def delta(self, index: int, text: str, logprobs: Sequence[gateway_pb2.Logprob], offset: int) -> JsonObject:
        """Text that begins `offset` characters into the answer."""
        ...

    def finish(self, index: int, reason: str) -> JsonObject:
        """The last chunk of an answer."""
        ...


def finish_reason(choice: gateway_pb2.Choice) -> str:
    return _FINISH_REASONS.get(choice.finish_reason, "error")


def finite(logprob: float) -> float:
    """A log-probability that JSON can hold. NaN counts as impossible, too."""
    return max(logprob, MIN_LOGPROB) if logprob <= 0 else 0.0 if logprob > 0 else MIN_LOGPROB
