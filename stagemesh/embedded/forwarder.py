"""A TCP forwarder: what arrives at a fixed port goes to another one, byte for byte."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

CHUNK_BYTES = 64 * 1024
MAX_CONNECTIONS = 256


@asynccontextmanager
async def forward(port: int, target_port: int) -> AsyncIterator[asyncio.Server]:
    """Forward connections at 127.0.0.1:`port` to 127.0.0.1:`target_port` while the context lasts.

    Connections above MAX_CONNECTIONS are closed at once. Raises OSError when the port is taken.
    """
    running: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(running) >= MAX_CONNECTIONS:
            writer.close()
            return
        running.add(task)
        try:
            await _connect_both(reader, writer, target_port)
        finally:
            running.discard(task)

    server = await asyncio.start_server(accept, "127.0.0.1", port, limit=CHUNK_BYTES)
    try:
        yield server
    finally:
        server.close()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _connect_both(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target_port: int) -> None:
    try:
        target_reader, target_writer = await asyncio.open_connection("127.0.0.1", target_port, limit=CHUNK_BYTES)
    except OSError:
        writer.close()
        return
    try:
        await asyncio.gather(_pump(reader, target_writer), _pump(target_reader, writer))
    finally:
        target_writer.close()
        writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    # A peer that vanished ends its connection and no other; the half that is still open is told by EOF.
    with suppress(ConnectionError):
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
    with suppress(OSError, RuntimeError):
        writer.write_eof()
