"""Answers of /v1/chat/completions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from services.gateway.http.shape import JsonObject, finish_reason, finite
from stagemesh.api.gateway.v1 import gateway_pb2


@dataclass(frozen=True)
class ChatShape:
    with_logprobs: bool = False

    id_prefix: str = "chatcmpl-"
    whole_object: str = "chat.completion"
    chunk_object: str = "chat.completion.chunk"

    def choice(self, index: int, choice: gateway_pb2.Choice) -> JsonObject:
        return {
            "index": index,
            "message": {"role": "assistant", "content": choice.text, "refusal": None},
            "logprobs": self._logprobs(choice.logprobs),
            "finish_reason": finish_reason(choice),
        }

    def opening(self, index: int) -> JsonObject | None:
        return _chunk(index, {"role": "assistant", "content": ""})

    def delta(self, index: int, text: str, logprobs: Sequence[gateway_pb2.Logprob], offset: int) -> JsonObject:
        return _chunk(index, {"content": text}, logprobs=self._logprobs(logprobs))

    def finish(self, index: int, reason: str) -> JsonObject:
        return _chunk(index, {}, reason=reason)

    def _logprobs(self, logprobs: Sequence[gateway_pb2.Logprob]) -> JsonObject | None:
        if not self.with_logprobs:
            return None
        return {
            "content": [
                {**_token(position), "top_logprobs": [_token(top) for top in position.top]} for position in logprobs
            ],
            "refusal": None,
        }


def _chunk(
    index: int, delta: JsonObject, *, logprobs: JsonObject | None = None, reason: str | None = None
) -> JsonObject:
    return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": reason}


def _token(token: gateway_pb2.Logprob | gateway_pb2.TopLogprob) -> JsonObject:
    # A token that is a part of a character has no text of its own; its bytes are not known here.
    whole = "�" not in token.token
    return {
        "token": token.token,
        "logprob": finite(token.logprob),
        "bytes": list(token.token.encode()) if whole else None,
    }
