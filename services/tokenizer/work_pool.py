"""Threads for large texts, so that small ones never wait behind them. Bounded in number and in queue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

from stagemesh.runtime.errors import Exhausted

T = TypeVar("T")


class WorkPool:
    """Used from one event loop."""

    def __init__(self, *, threads: int, max_waiting: int, inline_chars: int) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="encode")
        self._max_jobs = threads + max_waiting
        self._inline_chars = inline_chars
        self.num_jobs = 0
        """Running and waiting in threads."""

    async def run(self, num_chars: int, work: Callable[[], T]) -> T:
        """`work()`, here when its text is small, else in a thread. Raises Exhausted TOKENIZER_BUSY."""
        if num_chars <= self._inline_chars:
            return work()
        if self.num_jobs >= self._max_jobs:
            raise Exhausted("TOKENIZER_BUSY", "too many large texts are being encoded; try again", retry_after_ms=500)
        self.num_jobs += 1
        future = self._executor.submit(copy_context().run, work)
        # Counted until the work has ended, not until its caller has given up: a running thread cannot be stopped.
        loop = asyncio.get_running_loop()
        future.add_done_callback(lambda _: loop.call_soon_threadsafe(self._ended))
        return await asyncio.wrap_future(future)

    async def close(self) -> None:
        """Forget what waits, and wait for what runs: a few seconds at the largest text that is taken."""
        await asyncio.to_thread(self._executor.shutdown, wait=True, cancel_futures=True)

    def _ended(self) -> None:
        self.num_jobs -= 1
