"""What of the configuration is taken again when its file changes, without a restart: the breakers' thresholds."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from services.gateway.breakers import StageBreakers
from services.gateway.config import GatewayConfig
from services.gateway.engines import Engines
from stagemesh.runtime.config import ConfigError, read_source
from stagemesh.runtime.telemetry import get_logger

LOOK_EVERY_S = 2.0

log = get_logger(__name__)


class Reloading:
    """Looks at the file's time; a file that cannot be used changes nothing and is told in the log."""

    def __init__(self, breakers: StageBreakers, engines: Engines, path: str | None = None) -> None:
        """`path`: by default the file that the process was started with."""
        path = os.environ.get("STAGEMESH_CONFIG", "") if path is None else path
        self._path = Path(path) if path else None
        self._breakers, self._engines = breakers, engines
        self._changed_ns = self._read_changed_ns()
        self._task = asyncio.create_task(self._keep_looking(), name="reloading")

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def look(self) -> bool:
        """Take what has changed; whether anything was taken."""
        changed_ns = self._read_changed_ns()
        if changed_ns == self._changed_ns or self._path is None:
            return False
        self._changed_ns = changed_ns
        try:
            config = read_source(self._path).section("gateway", GatewayConfig)
        except ConfigError as error:
            log.warning("changed configuration not taken", error=str(error))
            return False
        self._breakers.configure(config.breakers)
        self._engines.configure(config.breakers.of("engine"))
        log.info("thresholds of breakers taken from the changed configuration")
        return True

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            self.look()

    def _read_changed_ns(self) -> int:
        try:
            return self._path.stat().st_mtime_ns if self._path is not None else 0
        except OSError:
            return 0
