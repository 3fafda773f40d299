"""One engine process: its `Run` call, and the sequences of this gateway that it works on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence

import grpc

from services.gateway import metrics
from services.gateway.erasures import Erasures
from stagemesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from stagemesh.runtime.breaker import Breaker, BreakerConfig
from stagemesh.runtime.channel import call_metadata, dial
from stagemesh.runtime.errors import StagemeshError, Unavailable, from_rpc
from stagemesh.runtime.telemetry import get_logger

CONNECT_TIMEOUT_S = 2.0
RECONNECT_S = 0.25
MAX_COMMANDS = 4_096
PULSE_EVERY_S = 0.25
SILENCE_S = 1.0
PULSE_TIMEOUT_S = 1.5
"""An engine that stands still is lost after 2.75 s at most, and its sequences continue elsewhere."""
FORGET_TIMEOUT_S = 1.0
"""How long an erasure waits for a place among the commands."""

log = get_logger(__name__)


class EngineLost(Exception):
    """The `Run` call broke; what the sequence had delivered so far continues elsewhere."""


class EngineLink:
    """Keeps a `Run` call open to the engine at `address`, and reconnects for as long as it lives."""

    def __init__(self, address: str, *, max_message_bytes: int, breaker: BreakerConfig | None = None) -> None:
        self.address = address
        self.breaker = Breaker(breaker or BreakerConfig())
        self._heard_s = 0.0
        self.description: engine_pb2.DescribeResponse | None = None
        self.load = engine_pb2.WatchLoadResponse()
        self._channel = dial([address], max_message_bytes=max_message_bytes)
        self._stub = engine_pb2_grpc.EngineServiceStub(self._channel)
        self._commands: asyncio.Queue[engine_pb2.RunRequest] = asyncio.Queue(MAX_COMMANDS)
        self._sequences: dict[str, asyncio.Queue[engine_pb2.SequenceDelta | None]] = {}
        self._in_flight_tokens: dict[str, int] = {}
        self._erasures = Erasures()
        self._up = asyncio.Event()
        self._task = asyncio.create_task(self._keep_connected(), name=f"engine-link {address}")

    @property
    def ready(self) -> bool:
        return self._up.is_set() and not self.load.draining

    @property
    def adapters(self) -> Sequence[engine_pb2.Adapter]:
        """Those that can be asked for, as last heard."""
        if self.load.instance:
            return self.load.adapters
        return self.description.adapters if self.description is not None else ()

    @property
    def num_sequences(self) -> int:
        """Sequences of this gateway in it."""
        return len(self._sequences)

    @property
    def in_flight_tokens(self) -> int:
        """Tokens that this gateway's sequences may still cost: counted here, not asked for."""
        return sum(self._in_flight_tokens.values())

    async def run(self, submit: engine_pb2.Submit) -> AsyncGenerator[engine_pb2.SequenceDelta]:
        """Deltas of one sequence until its finish. Raises EngineLost when the engine goes away in between.

        Leaving the iteration early cancels the sequence.
        """
        if not self.ready:
            raise EngineLost(self.address)
        deltas: asyncio.Queue[engine_pb2.SequenceDelta | None] = asyncio.Queue()  # bounded by max_tokens
        self._sequences[submit.sequence_id] = deltas
        self._in_flight_tokens[submit.sequence_id] = len(submit.token_ids) + submit.sampling.max_tokens
        finished = False
        try:
            await self._commands.put(engine_pb2.RunRequest(submit=submit))
            while not finished:
                delta = await deltas.get()
                if delta is None:
                    finished = True
                    raise EngineLost(self.address)
                finished = delta.HasField("finish")
                yield delta
        finally:
            self._sequences.pop(submit.sequence_id, None)
            self._in_flight_tokens.pop(submit.sequence_id, None)
            if not finished and self._up.is_set():
                self._cancel(submit.sequence_id)

    def prefetch(self, prefetch: engine_pb2.Prefetch) -> None:
        """Say what a sequence to come will want; nothing depends on it."""
        if not self.ready:
            return
        try:
            self._commands.put_nowait(engine_pb2.RunRequest(prefetch=prefetch))
        except asyncio.QueueFull:
            log.warning("prefetch not sent", address=self.address)

    async def forget(self, tenant_id: str) -> None:
        """Have the engine keep nothing of a tenant for reuse.

        While the call is broken the engine may live on: it is then told before anything else once there is a new call.
        Raises Unavailable where too much waits to be told.
        """
        if not self._erasures.add(tenant_id):
            raise Unavailable("ENGINE_UNAVAILABLE", "an engine cannot be told what to forget", retry_after_ms=2_000)
        if not self._up.is_set():
            return
        try:
            async with asyncio.timeout(FORGET_TIMEOUT_S):
                await self._commands.put(_forget(tenant_id))
        except TimeoutError:
            busy = "an engine takes no commands at the moment"
            raise Unavailable("ENGINE_UNAVAILABLE", busy, retry_after_ms=2_000) from None

    def _cancel(self, sequence_id: str) -> None:
        try:
            self._commands.put_nowait(engine_pb2.RunRequest(cancel=engine_pb2.Cancel(sequence_id=sequence_id)))
        except asyncio.QueueFull:  # thousands of commands behind: the sequence runs to its own end
            log.warning("cancel not sent", sequence_id=sequence_id)

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._channel.close()

    async def _keep_connected(self) -> None:
        while True:
            try:
                await self._connect_and_read()
            except (grpc.RpcError, StagemeshError) as error:
                reason = from_rpc(error) if isinstance(error, grpc.RpcError) else error
                if self._up.is_set():
                    log.warning("engine lost", address=self.address, error=str(reason))
            self._lose_all()
            await asyncio.sleep(RECONNECT_S)

    async def _connect_and_read(self) -> None:
        self.description = await self._stub.Describe(
            engine_pb2.DescribeRequest(), timeout=CONNECT_TIMEOUT_S, metadata=call_metadata(), wait_for_ready=True
        )
        self.load = engine_pb2.WatchLoadResponse()
        run = self._stub.Run(metadata=call_metadata())
        load = self._stub.WatchLoad(engine_pb2.WatchLoadRequest(), metadata=call_metadata())
        tasks = [
            asyncio.create_task(self._write(run)),
            asyncio.create_task(self._read(run)),
            asyncio.create_task(self._watch_load(load)),
            asyncio.create_task(self._feel_pulse()),
        ]
        self._heard_s = time.monotonic()
        self._up.set()
        log.info("engine connected", address=self.address, model=self.description.model.model)
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            run.cancel()
            load.cancel()

    async def _write(self, run: grpc.aio.StreamStreamCall[engine_pb2.RunRequest, engine_pb2.RunResponse]) -> None:
        for tenant_id in self._erasures.to_tell():
            await run.write(_forget(tenant_id))
            self._erasures.told(tenant_id)
        while True:
            command = await self._commands.get()
            await run.write(command)
            if command.HasField("forget"):
                self._erasures.told(command.forget.tenant_id)

    async def _read(self, run: grpc.aio.StreamStreamCall[engine_pb2.RunRequest, engine_pb2.RunResponse]) -> None:
        async for response in run:
            self._heard_s = time.monotonic()
            for delta in response.deltas:
                if (sequence := self._sequences.get(delta.sequence_id)) is not None:
                    sequence.put_nowait(delta)

    async def _watch_load(
        self, loads: grpc.aio.UnaryStreamCall[engine_pb2.WatchLoadRequest, engine_pb2.WatchLoadResponse]
    ) -> None:
        async for load in loads:
            self._heard_s = time.monotonic()
            self.load = load
            metrics.show_engine(load)

    async def _feel_pulse(self) -> None:
        """While sequences wait for an engine that says nothing: ask it something. Raises grpc.RpcError when it does not
        answer: a process that stands still keeps its connection."""
        while True:
            await asyncio.sleep(PULSE_EVERY_S)
            if self._sequences and time.monotonic() - self._heard_s > SILENCE_S:
                await self._stub.Describe(
                    engine_pb2.DescribeRequest(), timeout=PULSE_TIMEOUT_S, metadata=call_metadata()
                )
                self._heard_s = time.monotonic()

    def _lose_all(self) -> None:
        self._up.clear()
        while not self._commands.empty():
            self._commands.get_nowait()
        for deltas in self._sequences.values():
            deltas.put_nowait(None)


def _forget(tenant_id: str) -> engine_pb2.RunRequest:
    return engine_pb2.RunRequest(forget=engine_pb2.Forget(tenant_id=tenant_id))
