"""The engine core in a thread of its own: commands in, step outputs out.

The seam is a queue of values, so the core could as well run in another process; a thread costs nothing that can be
measured (docs/decisions/0115).
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from services.engine.core import EngineCore
from services.engine.ending import Ending
from services.engine.kv.jobs import LoadJob, SaveJob
from services.engine.sequence import Sequence
from services.engine.updates import StepOutput
from stagemesh.api.common.v1 import common_pb2
from stagemesh.runtime.errors import Internal
from stagemesh.runtime.telemetry import get_logger

log = get_logger(__name__)


@dataclass(frozen=True)
class Add:
    sequence: Sequence


@dataclass(frozen=True)
class End:
    sequence_id: str
    ending: Ending


@dataclass(frozen=True)
class ForgetTenant:
    """Keep nothing of a tenant for reuse."""

    tenant_id: str


@dataclass(frozen=True)
class Stop:
    """Leave the loop after ending what still runs."""

    ending: Ending


@dataclass(frozen=True)
class Loaded:
    """What could be loaded of a sequence lies in its pages."""

    job: LoadJob


@dataclass(frozen=True)
class Copied:
    """Pages have been copied out of the pool."""

    job: SaveJob


Command = Add | End | ForgetTenant | Stop | Loaded | Copied
SETTLE_S = 5.0
"""How long the loop waits at its end for pages that other threads have."""


class CoreThread:
    """The queue is bounded by the registry, which bounds the number of live sequences."""

    def __init__(self, core: EngineCore, publish: Callable[[StepOutput], None]) -> None:
        """`publish` is called from the thread after each step."""
        self._core = core
        self._publish = publish
        self._commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._loop, name="engine-core", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def send(self, command: Command) -> None:
        """Takes effect at the next step boundary."""
        if isinstance(command, Add) and command.sequence.adapter is not None:
            command.sequence.adapter.num_begun += command.sequence.num_in_all
        self._commands.put(command)

    def join(self, timeout_s: float) -> bool:
        """Wait for the end after Stop; whether it came."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _loop(self) -> None:
        running = True
        while running:
            running = self._obey()
            try:
                output = self._core.step()
            except Exception:
                log.exception("engine step broke down")
                detail = Internal("ENGINE_FAULT", "the engine's step loop broke down; its log has the details")
                self._core.end_all(Ending(common_pb2.FINISH_REASON_ERROR, error=detail))
                output = self._core.step()
            self._publish(output)
        self._settle()

    def _obey(self) -> bool:
        """Take all commands there are, waiting for one while there is nothing to do; False after Stop."""
        timeout_s = self._core.wait_s()
        while True:
            try:
                command = self._commands.get(timeout=timeout_s) if timeout_s != 0 else self._commands.get_nowait()
            except queue.Empty:
                return True
            timeout_s = 0.0
            if isinstance(command, Stop):
                self._core.end_all(command.ending)
                return False
            try:
                self._do(command)
            except Exception:
                log.exception("a command to the engine broke down", command=type(command).__name__)
                self._fail(command)

    def _do(self, command: Add | End | ForgetTenant | Loaded | Copied) -> None:
        match command:
            case Add(sequence):
                self._core.add(sequence)
            case End(sequence_id, ending):
                self._core.end(sequence_id, ending)
            case ForgetTenant(tenant_id):
                self._core.forget(tenant_id)
            case Loaded(job):
                self._core.loaded(job)
            case Copied(job):
                self._core.copied(job)

    def _fail(self, command: Command) -> None:
        """End the sequence of a command that broke down, and no other."""
        match command:
            case Add(sequence) | Loaded(LoadJob(sequence=sequence)):
                pass
            case _:
                return
        detail = Internal("ENGINE_FAULT", "the engine could not take this sequence up; its log has the details")
        try:
            self._core.fail(sequence, detail)
        except Exception:
            log.exception("a sequence could not be ended", sequence_id=sequence.sequence_id)

    def _settle(self) -> None:
        """Take back the pages that other threads have."""
        deadline_s = time.monotonic() + SETTLE_S
        while self._core.has_pages_out() and (left_s := deadline_s - time.monotonic()) > 0:
            with suppress(queue.Empty):
                match self._commands.get(timeout=left_s):
                    case Loaded(job):
                        self._core.loaded(job)
                    case Copied(job):
                        self._core.copied(job)
                    case _:
                        pass  # nothing more is computed
