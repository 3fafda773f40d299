"""The engine core in a thread of its own: commands in, step outputs out.

The seam is a queue of values, so the core could as well run in another process; a thread costs nothing that can be
measured (docs/decisions/0115).
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass

from services.engine.core import EngineCore
from services.engine.ending import Ending
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
class Stop:
    """Leave the loop after ending what still runs."""

    ending: Ending


Command = Add | End | Stop


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

    def _obey(self) -> bool:
        """Take all commands there are, waiting for one while there is nothing to do; False after Stop."""
        timeout_s: float | None = 0.0
        if not self._core.has_work():
            timeout_s = None
        while True:
            try:
                command = self._commands.get(timeout=timeout_s) if timeout_s != 0 else self._commands.get_nowait()
            except queue.Empty:
                return True
            timeout_s = 0.0
            match command:
                case Add(sequence):
                    self._core.add(sequence)
                case End(sequence_id, ending):
                    self._core.end(sequence_id, ending)
                case Stop(ending):
                    self._core.end_all(ending)
                    return False
