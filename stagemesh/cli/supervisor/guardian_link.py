"""The supervisor's end of the pipe to its guardian."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

GUARDIAN = Path(__file__).with_name("guardian.py")
END_TIMEOUT_S = 5.0


class GuardianLink:
    """A guardian process that knows which children run."""

    def __init__(self, grace_s: float) -> None:
        self._known: set[int] = set()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(GUARDIAN), str(grace_s)],
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def update(self, pids: set[int]) -> None:
        """Tell it which children run now."""
        self._send(
            "".join(
                [*(f"+{pid}\n" for pid in pids - self._known), *(f"-{pid}\n" for pid in self._known - pids)],
            )
        )
        self._known = pids

    def close(self) -> None:
        """An orderly end: there is nothing left to guard."""
        self._send(".\n")
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(END_TIMEOUT_S)

    def _send(self, text: str) -> None:
        assert self._process.stdin is not None
        if text:
            self._process.stdin.write(text)
            self._process.stdin.flush()
