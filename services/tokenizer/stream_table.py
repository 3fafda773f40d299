"""The open streams of one detokenization call."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from services.tokenizer.loaded_model import LoadedModel
from services.tokenizer.text_stream import TextStream
from stagemesh.api.tokenizer.v1 import tokenizer_pb2
from stagemesh.runtime.errors import Exhausted, InvalidRequest, StagemeshError

MAX_STREAM_ID_CHARS = 1_024
MAX_CHUNK_TOKENS = 131_072
"""Of one chunk, so that an answer stays far below the limit of a message."""


@dataclass
class _Entry:
    stream: TextStream | None
    """None once the stream has failed: its later chunks fail, too, until its end."""
    used_s: float
    failure: StagemeshError | None = None


class StreamTable:
    """At most `max_streams`; beyond it a stream idle for `idle_s` makes room, or the new one is refused."""

    def __init__(
        self,
        find_model: Callable[[str], LoadedModel],
        *,
        max_streams: int,
        idle_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._find_model = find_model
        self.max_streams = max_streams
        self._idle_s = idle_s
        self._clock = clock
        self._entries: OrderedDict[str, _Entry] = OrderedDict()  # the longest unused first

    def __len__(self) -> int:
        return len(self._entries)

    def feed(self, chunk: tokenizer_pb2.DetokenizeChunk) -> tuple[str, int]:
        """The text that the chunk adds, and the tokens of its stream so far.

        Raises StagemeshError when this stream fails; the others are not touched.
        """
        entry = self._entry(chunk)
        try:
            if entry.stream is None:
                assert entry.failure is not None
                raise entry.failure
            if len(chunk.token_ids) > MAX_CHUNK_TOKENS:
                raise InvalidRequest(
                    "TOO_MANY_TOKENS",
                    f"{len(chunk.token_ids)} tokens in one chunk; at most {MAX_CHUNK_TOKENS} are taken",
                    field="token_ids",
                )
            text = entry.stream.feed(chunk.token_ids, end=chunk.end)
        except StagemeshError as error:
            entry.stream, entry.failure = None, error
            raise
        finally:
            if chunk.end:
                self._entries.pop(chunk.stream_id, None)
        return text, entry.stream.num_tokens

    def _entry(self, chunk: tokenizer_pb2.DetokenizeChunk) -> _Entry:
        entry = self._entries.get(chunk.stream_id)
        if entry is not None:
            entry.used_s = self._clock()
            self._entries.move_to_end(chunk.stream_id)
            return entry
        if not 0 < len(chunk.stream_id) <= MAX_STREAM_ID_CHARS:
            raise InvalidRequest(
                "INVALID_STREAM_ID", f"a stream ID has 1 to {MAX_STREAM_ID_CHARS} characters", field="stream_id"
            )
        self._make_room()
        entry = _Entry(stream=None, used_s=self._clock())
        try:
            entry.stream = TextStream(self._find_model(chunk.model), keep_special=chunk.keep_special_tokens)
        except StagemeshError as error:
            entry.failure = error
        self._entries[chunk.stream_id] = entry
        return entry

    def _make_room(self) -> None:
        if len(self._entries) < self.max_streams:
            return
        oldest = next(iter(self._entries))
        if self._clock() - self._entries[oldest].used_s < self._idle_s:
            raise Exhausted(
                "TOO_MANY_STREAMS", f"{self.max_streams} streams are open on this call", retry_after_ms=1_000
            )
        del self._entries[oldest]
