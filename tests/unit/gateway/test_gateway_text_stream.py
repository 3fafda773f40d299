from typing import cast

from services.gateway.detokenizer import DetokenizerLink, TextStream
from stagemesh.api.tokenizer.v1 import tokenizer_pb2
from stagemesh.runtime.errors import Unavailable


class SlowOnce:
    """A link whose first answer does not come in time."""

    def __init__(self) -> None:
        self.chunks: list[tokenizer_pb2.DetokenizeChunk] = []
        self.forgotten: list[str] = []

    async def exchange(self, chunk: tokenizer_pb2.DetokenizeChunk, timeout_s: float) -> tokenizer_pb2.DetokenizedText:
        self.chunks.append(chunk)
        if len(self.chunks) == 1:
            raise TimeoutError
        return tokenizer_pb2.DetokenizedText(stream_id=chunk.stream_id, text="".join(map(str, chunk.token_ids)))

    def forget(self, stream_id: str, model: str) -> None:
        self.forgotten.append(stream_id)


async def test_a_stream_whose_answer_came_too_late_is_freed_and_begun_again() -> None:
    link = SlowOnce()
    texts = TextStream(cast("DetokenizerLink", link), "s", "m")
    assert await texts.feed([1, 2], end=False, attempt_s=1, wait_s=5) == "12"
    assert link.forgotten == ["s#0"]
    assert [chunk.stream_id for chunk in link.chunks] == ["s#0", "s#1"]


class LoadsAtFirst:
    """A successor that takes chunks, and says of each that it still loads its models, before it answers."""

    def __init__(self) -> None:
        self.num_refusals = 0

    async def exchange(self, chunk: tokenizer_pb2.DetokenizeChunk, timeout_s: float) -> tokenizer_pb2.DetokenizedText:
        if 0 < self.num_refusals < 3:
            self.num_refusals += 1
            raise Unavailable("TOKENIZER_STARTING", "the tokenizer is loading its models", retry_after_ms=500)
        return tokenizer_pb2.DetokenizedText(stream_id=chunk.stream_id, text="".join(map(str, chunk.token_ids)))

    def forget(self, stream_id: str, model: str) -> None:
        pass


async def test_a_stream_waits_for_a_tokenizer_that_loads_and_loses_and_doubles_nothing() -> None:
    link = LoadsAtFirst()
    texts = TextStream(cast("DetokenizerLink", link), "s", "m")
    first = await texts.feed([1, 2], end=False, attempt_s=1, wait_s=5)
    link.num_refusals = 1  # it is killed here
    second = await texts.feed([3], end=False, attempt_s=1, wait_s=5)
    third = await texts.feed([4], end=True, attempt_s=1, wait_s=5)
    assert [first, second, third] == ["12", "3", "4"]
    assert texts.num_reopened == 2
