"""A process that holds one engine in memory and runs cases on demand; stopped while others are measured."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.cache import last_line
from benchmarks.peers.case import Case, Measurement
from benchmarks.peers.contender import PeerError

WORKERS = Path(__file__).parent / "workers"
LOAD_TIMEOUT_S = 300.0
RUN_TIMEOUT_S = 600.0


def pinned(threads: int) -> list[str]:
    """The command prefix that keeps a process on the first `threads` cores that we may use."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < threads:
        raise PeerError(f"this machine lends {len(cores)} cores, not {threads}")
    return ["taskset", "--cpu-list", ",".join(map(str, cores[:threads]))]


class Worker:
    """Speaks JSON lines with `workers/<script>`: a case in, its measurement out."""

    def __init__(
        self,
        python: Path | str,
        script: str,
        arguments: Sequence[str | Path],
        threads: int,
        log: Path,
        env: Mapping[str, str] | None = None,
        load_timeout_s: float = LOAD_TIMEOUT_S,
    ) -> None:
        """Starts the process and waits until it has loaded its model. Raises PeerError with its last line."""
        self._log = log
        answers, end = os.pipe()  # not stdout, on which libraries print
        environment = os.environ | {
            "ANSWERS_FD": str(end),
            "OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", **(env or {})
        }  # fmt: skip
        with log.open("w") as file:
            self._process = subprocess.Popen(
                [*pinned(threads), str(python), str(WORKERS / script), *map(str, arguments), str(threads)],
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=subprocess.STDOUT,
                text=True,
                env=environment,
                pass_fds=[end],
                start_new_session=True,  # so that its whole group can be stopped
            )
        os.close(end)
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, args=(answers,), daemon=True).start()
        self._answer(load_timeout_s)
        os.killpg(self._process.pid, signal.SIGSTOP)

    def measure(self, case: Case) -> Measurement:
        """Raises PeerError with the process's last line when it died or took too long."""
        assert self._process.stdin is not None
        self._signal(signal.SIGCONT)
        try:
            self._process.stdin.write(json.dumps(case.as_message()) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._died() from None
        answer = self._answer(RUN_TIMEOUT_S)
        self._signal(signal.SIGSTOP)  # its threads may spin while they wait
        return Measurement(**answer)

    def close(self) -> None:
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, number)

    def _read(self, answers: int) -> None:
        with os.fdopen(answers) as lines:
            for line in lines:
                self._lines.put(line)
        self._lines.put("")

    def _answer(self, timeout_s: float) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=timeout_s)
        except queue.Empty:
            self.close()
            raise PeerError(f"no answer in {timeout_s:.0f} s") from None
        if not line:
            raise self._died()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _died(self) -> PeerError:
        return PeerError(f"{last_line(self._log)} (exit status {self._process.wait()})")
