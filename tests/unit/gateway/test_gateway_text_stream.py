from typing import cast

from services.gateway.detokenizer import DetokenizerLink, TextStream
from stagemesh.api.tokenizer.v1 import tokenizer_pb2


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
