"""Tokens to text: one multiplexed call to the tokenizer, and streams that outlive it."""

from __future__ import annotations

import asyncio
import contextlib
import time

import grpc

from stagemesh.api.tokenizer.v1 import tokenizer_pb2, tokenizer_pb2_grpc
from stagemesh.runtime.channel import call_metadata
from stagemesh.runtime.deadline import Deadline
from stagemesh.runtime.errors import Internal, Unavailable, from_detail
from stagemesh.runtime.faults import request_faults, write_faults
from stagemesh.runtime.telemetry import get_logger

MAX_CHUNKS = 8_192
MAX_CHUNKS_A_MESSAGE = 256
RECONNECT_S = 0.1

log = get_logger(__name__)


class _CallBroke(Exception):
    pass


def no_text() -> Unavailable:
    """What callers are told when the tokenizer stays away."""
    why = "the text of the answer cannot be made at the moment"
    return Unavailable("TOKENIZER_UNAVAILABLE", why, retry_after_ms=1_000)


class DetokenizerLink:
    """Keeps one `Detokenize` call open while there is work for it."""

    def __init__(self, stub: tokenizer_pb2_grpc.TokenizerServiceStub) -> None:
        self._stub = stub
        self._chunks: asyncio.Queue[tokenizer_pb2.DetokenizeChunk] = asyncio.Queue(MAX_CHUNKS)
        self._waiting: dict[str, asyncio.Future[tokenizer_pb2.DetokenizedText]] = {}
        self._heard_s = 0.0
        self._silent = asyncio.Event()
        self._task = asyncio.create_task(self._keep_open(), name="detokenizer-link")

    async def exchange(self, chunk: tokenizer_pb2.DetokenizeChunk, timeout_s: float) -> tokenizer_pb2.DetokenizedText:
        """Send one chunk, get its text. Raises _CallBroke, TimeoutError or the stream's own StagemeshError.

        A call that answers nobody for so long is given up: the next one may reach another replica.
        """
        answer: asyncio.Future[tokenizer_pb2.DetokenizedText] = asyncio.get_running_loop().create_future()
        self._waiting[chunk.stream_id] = answer
        since_s = time.monotonic()
        try:
            async with asyncio.timeout(timeout_s):
                await self._chunks.put(chunk)
                text = await answer
        except TimeoutError:
            if self._heard_s < since_s:
                self._silent.set()
            raise
        finally:
            self._waiting.pop(chunk.stream_id, None)
        if text.HasField("error"):
            raise from_detail(text.error)
        return text

    def forget(self, stream_id: str, model: str) -> None:
        """Free a stream that was left before its end; a full queue leaves that to the tokenizer's own limits."""
        with contextlib.suppress(asyncio.QueueFull):
            self._chunks.put_nowait(tokenizer_pb2.DetokenizeChunk(stream_id=stream_id, model=model, end=True))

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _keep_open(self) -> None:
        while True:
            first = await self._chunks.get()
            call = self._stub.Detokenize(metadata=call_metadata())
            self._silent.clear()
            tasks = [
                asyncio.create_task(self._write(call, first)),
                asyncio.create_task(self._read(call)),
                asyncio.create_task(self._give_up()),
            ]
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            except grpc.RpcError as error:
                log.warning("detokenizer lost", error=error.code().name)
            except asyncio.InvalidStateError:  # what grpc.aio raises where the call was over before it was written to
                log.warning("detokenizer lost", error="the call was over")
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                call.cancel()
                self._fail_all()
            await asyncio.sleep(RECONNECT_S)

    async def _give_up(self) -> None:
        """Wait until the call is known to answer nobody."""
        await self._silent.wait()
        log.warning("detokenizer lost", error="it answers nobody")

    async def _write(
        self,
        call: grpc.aio.StreamStreamCall[tokenizer_pb2.DetokenizeRequest, tokenizer_pb2.DetokenizeResponse],
        first: tokenizer_pb2.DetokenizeChunk,
    ) -> None:
        chunks = [first]
        while True:
            while not self._chunks.empty() and len(chunks) < MAX_CHUNKS_A_MESSAGE:
                chunks.append(self._chunks.get_nowait())
            await call.write(tokenizer_pb2.DetokenizeRequest(chunks=chunks))
            chunks = [await self._chunks.get()]

    async def _read(
        self, call: grpc.aio.StreamStreamCall[tokenizer_pb2.DetokenizeRequest, tokenizer_pb2.DetokenizeResponse]
    ) -> None:
        async for response in call:
            self._heard_s = time.monotonic()
            for text in response.texts:
                answer = self._waiting.get(text.stream_id)
                if answer is not None and not answer.done():
                    answer.set_result(text)

    def _fail_all(self) -> None:
        while not self._chunks.empty():
            self._chunks.get_nowait()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(_CallBroke())


class TextStream:
    """The text of one output sequence. When the tokenizer is lost, its successor gets all tokens again.

    Concatenated pieces are always a prefix of the whole text, so what is known already is cut by length.
    """

    def __init__(self, link: DetokenizerLink, stream_id: str, model: str) -> None:
        self._link = link
        self._stream_id = stream_id
        self._model = model
        self._epoch = 0
        self._ended = True
        self._token_ids: list[int] = []
        self.text = ""
        self.num_reopened = 0

    def leave(self) -> None:
        """Nothing more will be fed; needed only where the end was not."""
        if not self._ended:
            self._link.forget(f"{self._stream_id}#{self._epoch}", self._model)

    async def feed(self, token_ids: list[int], *, end: bool, attempt_s: float, wait_s: float) -> str:
        """The text that `token_ids` add. Raises Unavailable when the tokenizer stays away for `wait_s`."""
        self._token_ids.extend(token_ids)
        self._ended = end
        send, resent = token_ids, False
        until = Deadline.after(wait_s)
        while not until.expired():
            chunk = tokenizer_pb2.DetokenizeChunk(
                stream_id=f"{self._stream_id}#{self._epoch}", model=self._model, token_ids=send, end=end
            )
            if (faults := request_faults.get()) is not None:
                chunk.faults = write_faults(faults.take("detokenize"))
            try:
                answer = await self._link.exchange(chunk, attempt_s)
            except (_CallBroke, TimeoutError, Internal, Unavailable):  # lost, slow, at fault, or still loading
                self._link.forget(chunk.stream_id, self._model)
                self._epoch += 1
                self.num_reopened += 1
                send, resent = self._token_ids, True
                await asyncio.sleep(RECONNECT_S)
                continue
            piece = answer.text[len(self.text) :] if resent else answer.text
            self.text += piece
            return piece
        raise no_text()
