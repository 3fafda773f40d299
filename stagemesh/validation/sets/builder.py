"""Building an index in a process of its own, and the folder in which indexes lie."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from stagemesh.runtime.errors import Exhausted, Unavailable
from stagemesh.runtime.identity import process_identity
from stagemesh.runtime.telemetry import get_logger
from stagemesh.validation.sets.config import AnchorSetsConfig

log = get_logger(__name__)


def own_folder(state_dir: Path | None, service: str) -> Path:
    """A fresh folder that no other process writes to, with what an earlier life of this one left removed."""
    if state_dir is not None:
        folder = state_dir.expanduser() / "anchors" / process_identity(service).instance
        try:
            remove(folder)
            folder.mkdir(parents=True, mode=0o700)
        except OSError as error:  # a container without a volume there; the files can lie anywhere
            log.warning("anchor sets are kept in a temporary folder", problem=str(error))
        else:
            return folder
    return Path(tempfile.mkdtemp(prefix="stagemesh-anchors-"))


def remove(folder: Path) -> None:
    """Remove a folder that this process made; mapped files stay readable for those that have mapped them."""
    shutil.rmtree(folder, ignore_errors=True)


def head(*, ignore_case: bool, max_edits: int) -> bytes:
    """The first line of a file of keys; the others are a key each, as JSON."""
    return json.dumps({"ignore_case": ignore_case, "max_edits": max_edits}).encode() + b"\n"


async def build(source: Path, target: Path, config: AnchorSetsConfig) -> int:
    """Build `target` from a file of keys; gives how many different keys there are.

    Raises Exhausted where time or memory do not suffice, Unavailable where no process can be started.
    """
    command = ("-P", "-m", "stagemesh.validation.anchor_build", source, target, str(config.build_memory_mb << 20))
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *command, stdout=asyncio.subprocess.PIPE, env=environment
        )
    except OSError as error:
        raise Unavailable("ANCHORS_UNAVAILABLE", "no process for building an index can be started") from error
    try:
        async with asyncio.timeout(config.build_timeout_s):
            output, _ = await process.communicate()
    except TimeoutError:
        raise _too_large() from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        log.warning("no index was built", exit_code=process.returncode)
        raise _too_large()
    return int(output)


def _too_large() -> Exhausted:
    message = "the index of this anchor set takes too much time or memory to build; split the set"
    return Exhausted("ANCHOR_SET_TOO_LARGE", message)
