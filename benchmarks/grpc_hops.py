"""What a message to another process and back costs where both do nothing, by how long they were idle before.

python benchmarks/grpc_hops.py [--rounds 100] [--idle-ms 0 20 100] [--quick] [--busy] [--json]

One process answers without any work, the other asks, in turns: by a call (`call_ms`), by a message on a stream that is
open already (`stream_ms`), and by a hundred bytes on a plain socket (`socket_ms`). The calls pass what those of the
mesh pass. A request crosses five such boundaries before its first token is read: no time to first token through the
mesh can be nearer to that in process than five of the middle figure.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import grpc
import uvloop

from benchmarks.lock import benchmark_lock, no_lock
from benchmarks.machine import describe_machine
from stagemesh.api.tokenizer.v1 import tokenizer_pb2, tokenizer_pb2_grpc
from stagemesh.runtime.channel import call_metadata, dial
from stagemesh.runtime.interceptors import CallInterceptor, Context
from stagemesh.runtime.server import server_options

MAX_BYTES = 1 << 25
SOCKET_BYTES = 100
CALL_TIMEOUT_S = 10.0
START_TIMEOUT_S = 30.0
NUM_TOKENS = 40


class Idle(tokenizer_pb2_grpc.TokenizerServiceServicer):
    """Answers at once."""

    async def Prepare(self, request: tokenizer_pb2.PrepareRequest, context: Context) -> tokenizer_pb2.PrepareResponse:
        return tokenizer_pb2.PrepareResponse(token_ids=range(NUM_TOKENS))

    async def Detokenize(
        self, request_iterator: AsyncIterator[tokenizer_pb2.DetokenizeRequest], context: Context
    ) -> AsyncIterator[tokenizer_pb2.DetokenizeResponse]:
        async for _ in request_iterator:
            yield tokenizer_pb2.DetokenizeResponse(texts=[tokenizer_pb2.DetokenizedText(text="word")])


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(SOCKET_BYTES):
        writer.write(chunk)
    writer.close()


def serve(ports: Any) -> None:
    """Until it is killed; tells the ports of gRPC and of the plain socket."""

    async def main() -> None:
        server = grpc.aio.server(interceptors=[CallInterceptor("")], options=server_options(MAX_BYTES))
        tokenizer_pb2_grpc.add_TokenizerServiceServicer_to_server(Idle(), server)  # type: ignore[abstract]
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        plain = await asyncio.start_server(echo, "127.0.0.1", 0)
        ports.send((port, plain.sockets[0].getsockname()[1]))
        await server.wait_for_termination()

    uvloop.run(main())


async def measure(ports: tuple[int, int], rounds: int, idle_ms: Sequence[float]) -> list[dict[str, float]]:
    channel = dial([f"127.0.0.1:{ports[0]}"])
    stub = tokenizer_pb2_grpc.TokenizerServiceStub(channel)
    stream = stub.Detokenize(metadata=call_metadata())
    reader, writer = await asyncio.open_connection("127.0.0.1", ports[1])
    request = tokenizer_pb2.PrepareRequest(model="m", prompt="a prompt " * 20)
    chunk = tokenizer_pb2.DetokenizeChunk(stream_id="s", token_ids=range(NUM_TOKENS))

    async def call() -> None:
        await stub.Prepare(request, timeout=CALL_TIMEOUT_S, metadata=call_metadata())

    async def message() -> None:
        await stream.write(tokenizer_pb2.DetokenizeRequest(chunks=[chunk]))
        await stream.read()

    async def plain() -> None:
        writer.write(bytes(SOCKET_BYTES))
        await reader.readexactly(SOCKET_BYTES)

    ways: dict[str, Callable[[], Awaitable[None]]] = {"call_ms": call, "stream_ms": message, "socket_ms": plain}
    found = []
    for idle in idle_ms:
        times: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, way in ways.items():
                await asyncio.sleep(idle / 1e3)
                started_s = time.perf_counter()
                await way()
                times[name].append(1e3 * (time.perf_counter() - started_s))
        medians = {name: round(statistics.median(values), 3) for name, values in times.items()}
        found.append({"idle_ms": idle, **medians})
    stream.cancel()
    writer.close()
    await channel.close()
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--idle-ms", type=float, nargs="+", default=[0.0, 20.0, 100.0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--busy", action="store_true", help="without the lock, beside other work")
    parser.add_argument("--json", action="store_true", help="one JSON object at the end")
    options = parser.parse_args(arguments)
    rounds, idle_ms = (5, [0.0]) if options.quick else (options.rounds, options.idle_ms)
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    process = spawn.Process(target=serve, args=(there,), daemon=True)
    with no_lock() if options.busy else benchmark_lock():
        process.start()
        try:
            if not here.poll(START_TIMEOUT_S):
                raise SystemExit("the other process did not start")
            hops = uvloop.run(measure(here.recv(), rounds, idle_ms))
        finally:
            process.kill()
            process.join()
    found = {"hops": hops, "machine": describe_machine()}
    print(json.dumps(found, indent=None if options.json else 1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
