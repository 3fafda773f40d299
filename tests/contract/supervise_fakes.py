"""A supervisor in a process of its own, for tests that kill it: supervise_fakes.py STATE NAME …"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from stagemesh.cli.supervisor.lock import AlreadyRunning, hold
from stagemesh.cli.supervisor.state_dir import StateDir
from tests.contract.supervised import fake_spec, supervised


async def main() -> None:
    async with supervised(Path(sys.argv[1]), [fake_spec(name) for name in sys.argv[2:]]):
        await asyncio.Event().wait()


if __name__ == "__main__":
    state = StateDir(Path(sys.argv[1]))
    state.create()
    try:
        with hold(state):
            asyncio.run(main())
    except AlreadyRunning as error:
        sys.exit(str(error))
