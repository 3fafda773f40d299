"""How many tokens passages have, by the tokenizer's own count, remembered."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from services.gateway.additions import CountedPassage, passage_text
from services.gateway.calls import call
from stagemesh.api.cache.v1 import knowledge_pb2
from stagemesh.api.tokenizer.v1 import tokenizer_pb2, tokenizer_pb2_grpc
from stagemesh.runtime.deadline import Deadline
from stagemesh.runtime.retry import RetryPolicy

RETRIES = RetryPolicy(max_attempts=2, first_backoff_s=0.01)
MAX_REMEMBERED = 20_000


class PassageTokens:
    """The text of a passage does not change under its ID; its title may, so what is remembered goes by both."""

    def __init__(self, tokenizer: tokenizer_pb2_grpc.TokenizerServiceStub) -> None:
        self._tokenizer = tokenizer
        self._known: OrderedDict[tuple[str, str, str], int] = OrderedDict()

    async def count(
        self, passages: Sequence[knowledge_pb2.Passage], model: str, deadline: Deadline, timeout_s: float
    ) -> list[CountedPassage]:
        """Raises grpc.RpcError."""
        keys = [(model, passage.passage_id, passage.title) for passage in passages]
        counts = {key: self._known[key] for key in keys if key in self._known}
        unknown = [(key, passage) for key, passage in zip(keys, passages, strict=True) if key not in counts]
        if unknown:
            texts = [passage_text(passage) for _, passage in unknown]
            request = tokenizer_pb2.EncodeRequest(model=model, texts=texts)
            answer = await call(self._tokenizer.Encode, request, RETRIES, deadline, timeout_s)
            for (key, _), result in zip(unknown, answer.response.results, strict=True):
                counts[key] = self._known[key] = len(result.ids)
        while len(self._known) > MAX_REMEMBERED:
            self._known.popitem(last=False)
        return [CountedPassage(passage, counts[key]) for key, passage in zip(keys, passages, strict=True)]
