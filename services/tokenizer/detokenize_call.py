"""One `Detokenize` call: reads chunks as they come, answers with all that was made since the last answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from services.tokenizer.stream_table import StreamTable
from stagemesh.api.tokenizer.v1 import tokenizer_pb2
from stagemesh.runtime.errors import StagemeshError, to_detail


@dataclass
class _Answer:
    """What one stream has to say in the next response."""

    stream_id: str
    pieces: list[str] = field(default_factory=list)
    num_tokens: int = 0
    end: bool = False
    failure: StagemeshError | None = None

    def to_proto(self) -> tokenizer_pb2.DetokenizedText:
        return tokenizer_pb2.DetokenizedText(
            stream_id=self.stream_id,
            text="".join(self.pieces),
            num_tokens=self.num_tokens,
            end=self.end,
            error=to_detail(self.failure) if self.failure else None,
        )


class DetokenizeCall:
    """Every chunk has an answer: its own entry, or one shared with later chunks of the same stream."""

    def __init__(self, table: StreamTable, *, max_pending_chars: int) -> None:
        self._table = table
        self._max_pending_chars = max_pending_chars
        self._answers: list[_Answer] = []
        self._growing: dict[str, _Answer] = {}
        self._num_pending_chars = 0
        self._has_news = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()

    async def answers(
        self, requests: AsyncIterator[tokenizer_pb2.DetokenizeRequest]
    ) -> AsyncIterator[tokenizer_pb2.DetokenizeResponse]:
        """Ends when the last request has been answered; an error of the call itself is raised."""
        reader = asyncio.create_task(self._read(requests))
        reader.add_done_callback(lambda _: self._has_news.set())
        try:
            while not reader.done() or self._answers:
                await self._has_news.wait()
                if self._answers:
                    yield self._take()
                if not self._answers and not reader.done():
                    self._has_news.clear()
            reader.result()
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)

    async def _read(self, requests: AsyncIterator[tokenizer_pb2.DetokenizeRequest]) -> None:
        async for request in requests:
            for chunk in request.chunks:
                # Whoever reads slowly slows his own chunks down, through gRPC's flow control.
                await self._has_room.wait()
                self._answer(chunk)
                self._has_news.set()

    def _answer(self, chunk: tokenizer_pb2.DetokenizeChunk) -> None:
        answer = self._growing.get(chunk.stream_id)
        if answer is None:
            answer = self._growing[chunk.stream_id] = _Answer(chunk.stream_id)
            self._answers.append(answer)
        try:
            text, answer.num_tokens = self._table.feed(chunk)
            answer.pieces.append(text)
            self._num_pending_chars += len(text)
        except StagemeshError as error:
            answer.failure = error
        if chunk.end:
            answer.end = True
            del self._growing[chunk.stream_id]  # the same ID may begin anew
        if self._num_pending_chars > self._max_pending_chars or len(self._answers) >= self._table.max_streams:
            self._has_room.clear()

    def _take(self) -> tokenizer_pb2.DetokenizeResponse:
        response = tokenizer_pb2.DetokenizeResponse(texts=[answer.to_proto() for answer in self._answers])
        self._answers.clear()
        self._growing.clear()
        self._num_pending_chars = 0
        self._has_room.set()
        return response
