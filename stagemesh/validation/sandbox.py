"""A few child processes in which hostile schemas, regexes and texts can do no harm.

Native code that runs away cannot be interrupted within a process: it holds the interpreter, may fill the memory or
overflow its stack. So it runs in children that are killed when they exceed their time, and end by themselves when they
exceed their memory; a new child takes the place of each.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stagemesh.runtime.errors import Exhausted, InvalidRequest, Unavailable
from stagemesh.runtime.telemetry import get_logger
from stagemesh.validation.fair_slots import FairSlots
from stagemesh.validation.sandbox_child import HEADER, encode

log = get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class SandboxConfig:
    num_workers: int = 2
    memory_bytes: int = 1 << 30
    """Address space of a child."""
    max_waiting: int = 256
    """Calls that may wait for a child; further ones are refused."""
    start_timeout_s: float = 30.0


class LimitExceeded(Exception):
    """The child was killed for its time, or ended for its memory or a crash in native code."""


class Fault(Exception):
    """The child's own code failed: a bug, not the caller's doing."""


GONE = (TimeoutError, asyncio.IncompleteReadError, ConnectionError)


class _Child:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._stdin, self._stdout = process.stdin, process.stdout

    @property
    def has_ended(self) -> bool:
        return self._process.returncode is not None

    async def call(self, frame: dict[str, Any]) -> Any:
        self._stdin.write(encode(frame))
        await self._stdin.drain()
        return await self.read()

    async def read(self) -> Any:
        size = HEADER.unpack(await self._stdout.readexactly(HEADER.size))[0]
        return json.loads(await self._stdout.readexactly(size))

    async def end(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        self._stdin.close()
        await self._process.wait()


class Sandbox:
    """Runs the handlers of `module` (see `sandbox_child.serve`) in children. Used from one event loop."""

    def __init__(self, module: str, config: SandboxConfig, arguments: Sequence[str] = ()) -> None:
        """The module is run with the bound of its memory in bytes and `arguments`."""
        self._module, self._arguments = module, arguments
        self._config = config
        self._idle: list[_Child | None] = [None] * config.num_workers  # None: to be started
        self._slots = FairSlots(config.num_workers)
        self._num_waiting = 0
        self._calls: set[asyncio.Task[Any]] = set()

    async def warm_up(self) -> None:
        """Start the children that are not running. Raises Unavailable when that does not work."""
        await asyncio.gather(*(self._warm_up_one() for _ in range(self._config.num_workers)))

    async def _warm_up_one(self) -> None:
        """In a slot of its own, as a call is: calls may come meanwhile."""
        await self._slots.acquire()
        try:
            if None not in self._idle:
                return
            self._idle.remove(None)
            child: _Child | None = None
            try:
                child = await self._start()
            finally:
                self._idle.append(child)
        finally:
            self._slots.release()

    async def call(
        self, name: str, argument: Any, timeout_s: float, lane: str = "", *, wait_s: float | None = None
    ) -> Any:
        """The result of a handler. The time counts from when a child is free; waiting for one takes `wait_s` at most,
        by default as long once more.

        Those who wait are served in turn by `lane`, and a named lane never has all children.

        Raises InvalidRequest for the handler's Refusal, LimitExceeded, Exhausted when too many wait, Unavailable when
        no child can be started, and Fault.
        """
        if self._num_waiting >= self._config.max_waiting:
            raise _busy()
        self._num_waiting += 1
        try:
            async with asyncio.timeout(timeout_s if wait_s is None else wait_s):
                await self._slots.acquire(lane)
        except TimeoutError:
            raise _busy() from None
        finally:
            self._num_waiting -= 1
        # A caller that gives up does not cost the child: the call ends by itself, within its time.
        task = asyncio.ensure_future(self._run(name, argument, timeout_s, lane))
        self._calls.add(task)
        task.add_done_callback(self._ended)
        return _result(await asyncio.shield(task))

    async def close(self) -> None:
        for task in self._calls:
            task.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)
        await asyncio.gather(*(child.end() for child in self._idle if child is not None))
        self._idle = []

    async def _run(self, name: str, argument: Any, timeout_s: float, lane: str) -> Any:
        child: _Child | None = None
        healthy = False
        started_s = 0.0
        try:
            self._idle = [None if child is not None and child.has_ended else child for child in self._idle]
            self._idle.sort(key=lambda child: child is not None)
            child = self._idle.pop() or await self._start()
            started_s = time.monotonic()
            frame = {"call": name, "timeout_s": timeout_s, "argument": argument}
            async with asyncio.timeout(timeout_s):
                answer = await child.call(frame)
            healthy = True
            return answer
        except GONE as error:
            log.warning("sandboxed call ended", call=name, after_s=round(time.monotonic() - started_s, 3))
            raise LimitExceeded(f"{name} exceeded its time or memory") from error
        finally:
            if child is not None and not healthy:
                await child.end()
            self._idle.append(child if healthy else None)
            self._slots.release(lane)

    async def _start(self) -> _Child:
        command = (sys.executable, "-P", "-m", self._module, str(self._config.memory_bytes), *self._arguments)
        try:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
            )
        except OSError as error:
            raise _unavailable() from error
        child = _Child(process)
        try:
            async with asyncio.timeout(self._config.start_timeout_s):
                await child.read()
        except GONE as error:
            await child.end()
            raise _unavailable() from error
        except asyncio.CancelledError:
            await child.end()
            raise
        return child

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._calls.discard(task)
        if not task.cancelled():
            task.exception()  # marks it as seen: its caller may have gone on without it


def _unavailable() -> Unavailable:
    return Unavailable("VALIDATION_UNAVAILABLE", "no process for checking texts can be started", retry_after_ms=1_000)


def _busy() -> Exhausted:
    return Exhausted("VALIDATION_BUSY", "too many texts wait to be checked; try again", retry_after_ms=200)


def _result(answer: dict[str, Any]) -> Any:
    if "refusal" in answer:
        refusal = answer["refusal"]
        raise InvalidRequest(refusal["reason"], refusal["message"], field=refusal["field"])
    if "fault" in answer:
        raise Fault(answer["fault"])
    return answer["result"]
