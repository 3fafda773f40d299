"""Answers of /v1/completions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from services.gateway.http.shape import JsonObject, finish_reason, finite
from stagemesh.api.gateway.v1 import gateway_pb2


@dataclass(frozen=True)
class CompletionShape:
    with_logprobs: bool = False

    id_prefix: str = "cmpl-"
    whole_object: str = "text_completion"
    chunk_object: str = "text_completion"

    def choice(self, index: int, choice: gateway_pb2.Choice) -> JsonObject:
        return {
            "index": index,
            "text": choice.text,
            "logprobs": self._logprobs(choice.logprobs, 0),
            "finish_reason": finish_reason(choice),
        }

    def opening(self, index: int) -> JsonObject | None:
        return None

    def delta(self, index: int, text: str, logprobs: Sequence[gateway_pb2.Logprob], offset: int) -> JsonObject:
        return {
            "index": index,
            "text": text,
            "logprobs": self._logprobs(logprobs, offset),
            "finish_reason": None,
        }

    def finish(self, index: int, reason: str) -> JsonObject:
        return {"index": index, "text": "", "logprobs": None, "finish_reason": reason}

    def _logprobs(self, logprobs: Sequence[gateway_pb2.Logprob], offset: int) -> JsonObject | None:
        if not self.with_logprobs:
            return None
        lengths = [len(position.token) for position in logprobs]
        return {
            "tokens": [position.token for position in logprobs],
            "token_logprobs": [finite(position.logprob) for position in logprobs],
            "top_logprobs": [{top.token: finite(top.logprob) for top in position.top} for position in logprobs],
            "text_offset": list(accumulate(lengths, initial=offset))[:-1],
        }
