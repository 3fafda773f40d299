"""One `Detokenize` call: reads chunks as they come, answers with all that was made since the last answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from services.tokenizer.chunk_faults import fault_of
from services.tokenizer.stream_table import StreamTable
from stagemesh.api.tokenizer.v1 import tokenizer_pb2
from stagemesh.runtime.errors import Internal, StagemeshError, to_detail
from stagemesh.runtime.faults import Fault, strike
from stagemesh.runtime.telemetry import get_logger

log = get_logger(__name__)


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
        self._late: set[asyncio.Task[None]] = set()

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
            tasks = (reader, *self._late)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, requests: AsyncIterator[tokenizer_pb2.DetokenizeRequest]) -> None:
        async for request in requests:
            for chunk in request.chunks:
                # Whoever reads slowly slows his own chunks down, through gRPC's flow control.
                await self._has_room.wait()
                if (fault := self._fault(chunk)) is not None:
                    late = asyncio.create_task(self._answer_with(fault, chunk))
                    self._late.add(late)
                    late.add_done_callback(self._late.discard)
                    continue
                self._answer(chunk)
                self._has_news.set()

    def _fault(self, chunk: tokenizer_pb2.DetokenizeChunk) -> Fault | None:
        try:
            return fault_of(chunk)
        except StagemeshError:
            return None  # a text that nobody can read asks for nothing

    async def _answer_with(self, fault: Fault, chunk: tokenizer_pb2.DetokenizeChunk) -> None:
        """The answer of a chunk that something goes wrong with, perhaps late; its stream sends no other before it."""
        failure: Exception | None = None
        try:
            await strike(fault)
        except Exception as error:
            log.exception("chunk failed", stream_id=chunk.stream_id)
            failure = error
        self._answer(chunk, failure)
        self._has_news.set()

    def _answer(self, chunk: tokenizer_pb2.DetokenizeChunk, failure: Exception | None = None) -> None:
        answer = self._growing.get(chunk.stream_id)
        if answer is None:
            answer = self._growing[chunk.stream_id] = _Answer(chunk.stream_id)
            self._answers.append(answer)
        try:
            if failure is not None:
                raise failure
            text, answer.num_tokens = self._table.feed(chunk)
            answer.pieces.append(text)
            self._num_pending_chars += len(text)
        except StagemeshError as error:
            answer.failure = error
        except Exception:
            log.exception("stream failed", stream_id=chunk.stream_id)
            answer.failure = Internal("DETOKENIZE_FAULT", "an unexpected fault; the tokenizer's log has the details")
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
