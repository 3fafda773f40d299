"""Runs the builder beside this process and hears how far it is."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

from services.cache.knowledge.job import REFUSED, Built
from stagemesh.runtime.errors import Internal, InvalidRequest


async def run_builder(folder: Path) -> AsyncGenerator[int | Built]:
    """Documents compared so far, again and again, then the result.

    Raises InvalidRequest for documents that it refuses, Internal when it breaks down. Leaving early ends it.
    """
    command = (sys.executable, "-P", "-m", "services.cache.knowledge.builder", str(folder))
    # Not by the event loop: uvloop forks, and gRPC's fork handlers complain in a process that serves calls.
    process = subprocess.Popen(command, stdout=subprocess.PIPE)  # noqa: ASYNC220  milliseconds, once a sync
    assert process.stdout is not None
    refusal = ""
    built: Built | None = None
    try:
        while line := await asyncio.to_thread(process.stdout.readline):
            said = json.loads(line)
            refusal = said.get("refused", refusal)
            if "built" in said:
                built = Built(**said["built"])
            elif "done" in said:
                yield int(said["done"])
        code = await asyncio.to_thread(process.wait)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()  # a killed process is gone at once
        process.stdout.close()
    if code == REFUSED:
        raise InvalidRequest("INVALID_DOCUMENT", refusal, field="documents")
    if code != 0 or built is None:
        raise Internal("INTERNAL", f"indexing ended with code {code}; the cache service's log has the details")
    yield built
