"""The life of one process: start → ready → exit → back off → start again, until it is told to stop."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable

from stagemesh.cli.supervisor.backoff import Backoff
from stagemesh.cli.supervisor.child import PUMP_GRACE_S, Child, describe_exit, spawn
from stagemesh.cli.supervisor.log_file import OWN_LINE, LogFile, last_lines
from stagemesh.cli.supervisor.mesh_file import ProcessRecord, ProcessState
from stagemesh.cli.supervisor.probe import Health
from stagemesh.cli.supervisor.settings import SupervisorConfig
from stagemesh.cli.supervisor.spec import ProcessSpec

EXIT_CONFIG = 78
"""EX_CONFIG of sysexits.h: the same configuration would fail again, so there is no restart, unless it was good before:
then a file was changed or a port taken meanwhile, and trying again finds out when that is mended."""

START_PROBE_INTERVAL_S = 0.1
PROBE_TIMEOUT_S = 2.0
EXIT_OS_ERROR = 71
"""EX_OSERR of sysexits.h: the system could not make the process, which it may a little later."""
MAX_REASON_CHARS = 300


class ManagedProcess:
    """Keeps the process of one spec running."""

    def __init__(
        self, spec: ProcessSpec, settings: SupervisorConfig, log: LogFile, on_change: Callable[[], None]
    ) -> None:
        self.spec = spec
        self.record = ProcessRecord(name=spec.name, state=ProcessState.WAITING, address=spec.address, since=time.time())
        self._settings = settings
        self._log = log
        self._on_change = on_change
        self._backoff = Backoff(
            initial_s=settings.backoff_initial_s,
            max_s=settings.backoff_max_s,
            stable_after_s=settings.stable_after_s,
        )
        self._child: Child | None = None
        self._stopping = asyncio.Event()
        self._settled = asyncio.Event()
        self._ended = asyncio.Event()
        self._active = False
        self._ready_at: float | None = None  # monotonic, of the current run
        self._killed_for = ""
        self._was_ready = False

    async def run(self) -> None:
        """Keep the process running until `stop`, or until its first start ends with a configuration error."""
        self._active = True
        try:
            while not self._stopping.is_set():
                code = await self._run_once()
                if not self._stopping.is_set() and not await self._continue_after(code):
                    return
            self._change(ProcessState.STOPPED, pid=0)
        finally:
            self._settled.set()
            self._ended.set()
            await self.spec.probe.close()

    async def wait_settled(self) -> None:
        """Return when the process was ready for the first time, failed for good, or was told to stop."""
        await self._settled.wait()

    async def stop(self, grace_s: float) -> None:
        """SIGTERM, and SIGKILL when the process has not ended after `grace_s`. `run` returns afterwards."""
        self._stopping.set()
        if not self._active:
            return
        if self._child is not None:
            self._change(ProcessState.STOPPING)
            self._child.signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(grace_s):
                await self._ended.wait()
        except TimeoutError:
            self._log.write_line(f"did not end within {grace_s:g} s of SIGTERM: killed")
            if self._child is not None:
                self._child.signal(signal.SIGKILL)

    async def _run_once(self) -> int:
        """One run of the process; gives its exit code."""
        self._ready_at, self._killed_for = None, ""
        try:
            child = self._child = await spawn(self.spec)
        except OSError as error:
            self._killed_for = f"it could not be started: {error.strerror or error}"
            self._log.write_line(self._killed_for)
            return EXIT_OS_ERROR
        self._change(ProcessState.STARTING, pid=child.pid, started_at=child.started_at)
        if self._stopping.is_set():  # told to stop while it was being made
            child.signal(signal.SIGTERM)
        pump = asyncio.create_task(self._log.copy_from(child.output))
        watch = asyncio.create_task(self._watch(child))
        try:
            code = await child.process.wait()
        finally:
            self._child = None
            watch.cancel()
            child.signal(signal.SIGKILL)  # what it started and left behind
            await asyncio.wait({pump}, timeout=PUMP_GRACE_S)
            pump.cancel()
            child.close_output()
            await asyncio.gather(pump, watch, return_exceptions=True)
        self._log.write_line(f"ended: {describe_exit(code)}")
        return code

    async def _continue_after(self, code: int) -> bool:
        """Wait before the next start; False when there must be none."""
        reason = self._killed_for or describe_exit(code)
        if code > 0 and (words := self._last_words()):
            reason = f"{reason}: {words}"
        if code == EXIT_CONFIG and not self._was_ready:
            self._change(ProcessState.FAILED, pid=0, reason=self._last_words() or reason)
            return False
        ready_for_s = 0.0 if self._ready_at is None else time.monotonic() - self._ready_at
        delay_s = self._backoff.next_delay_s(ready_for_s)
        self._change(ProcessState.BACKOFF, pid=0, reason=reason, restarts=self.record.restarts + 1)
        try:
            async with asyncio.timeout(delay_s):
                await self._stopping.wait()
        except TimeoutError:
            return True
        return True

    def _last_words(self) -> str:
        """The last line that the process wrote, which says why it ended where it could tell."""
        lines = [line for line in last_lines(self._log.path, 20) if line.strip() and not line.startswith(OWN_LINE)]
        return lines[-1].removeprefix("stagemesh: ")[:MAX_REASON_CHARS] if lines else ""

    async def _watch(self, child: Child) -> None:
        """Follow the health of a run; end it when it stays silent for too long."""
        last_answer = time.monotonic()
        while not self._stopping.is_set():
            health = await self.spec.probe.check(PROBE_TIMEOUT_S)
            if self._stopping.is_set():
                return
            now = time.monotonic()
            last_answer = now if health is not Health.SILENT else last_answer
            self._note(health)
            was_ready = self._ready_at is not None
            limit_s = self._settings.stuck_after_s if was_ready else self._settings.start_timeout_s
            if now - last_answer > limit_s:
                self._log.write_line(f"its health has not answered for {limit_s:g} s: killed")
                self._killed_for = f"its health had not answered for {limit_s:g} s"
                child.signal(signal.SIGKILL)
                return
            ready = self.record.state is ProcessState.READY
            await asyncio.sleep(self._settings.probe_interval_s if ready else START_PROBE_INTERVAL_S)

    def _note(self, health: Health) -> None:
        if health is Health.READY and self.record.state is not ProcessState.READY:
            self._ready_at = self._ready_at or time.monotonic()
            self._was_ready = True
            self._change(ProcessState.READY)
            self._settled.set()
        elif health is not Health.READY and self.record.state is ProcessState.READY:
            silent = health is Health.SILENT
            self._change(ProcessState.NOT_READY, reason="its health does not answer" if silent else "takes no work")

    def _change(self, state: ProcessState, **fields: object) -> None:
        since = self.record.since if state is self.record.state else time.time()
        if state is ProcessState.READY:
            fields = {"reason": self.record.reason if self.record.restarts else "", **fields}
        self.record = self.record.model_copy(update={"state": state, "since": since, **fields})
        self._on_change()
