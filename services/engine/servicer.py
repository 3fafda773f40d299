"""The protocol: commands and calls in, messages out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from services.engine.adapter_messages import adapter_message, adapter_name_message
from services.engine.block_manager import PAGE_SIZE
from services.engine.engine import Engine
from services.engine.messages import IDENTITY, load_message, news_messages
from services.engine.sensors import DeviceSensors, load_nvml
from services.engine.subscriber import Subscriber
from stagemesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from stagemesh.runtime.errors import InvalidRequest, StagemeshError, Unavailable
from stagemesh.runtime.interceptors import Context
from stagemesh.runtime.precision_mode import MODES

LOAD_INTERVAL_S = 0.2
"""Between two load reports at least."""
LOOK_INTERVAL_S = 5.0
"""What changes without the load, as pages that are stored, is reported so late at most."""
DRAIN_MARGIN_S = 0.1
"""Kept back from the caller's deadline, to answer in time."""


class EngineServicer(engine_pb2_grpc.EngineServiceServicer):
    """Answers UNAVAILABLE until `engine` is set."""

    def __init__(self, drain_grace_s: float) -> None:
        self.engine: Engine | None = None
        self._drain_grace_s = drain_grace_s
        self._sensors: DeviceSensors | None = None
        self._closing = asyncio.Event()
        self._subscribers: set[Subscriber] = set()

    async def Run(
        self, request_iterator: AsyncIterator[engine_pb2.RunRequest], context: Context
    ) -> AsyncIterator[engine_pb2.RunResponse]:
        engine = self._ready()
        subscriber = Subscriber(grace_s=engine.config.reattach_grace_s, gather_s=engine.config.gather_ms / 1000)
        self._subscribers.add(subscriber)
        reader = asyncio.ensure_future(self._read(engine, request_iterator, subscriber))
        try:
            while (news := await subscriber.next_news()) is not None:
                if deltas := news_messages(news):
                    yield engine_pb2.RunResponse(step=engine.registry.load.steps, deltas=deltas)
        finally:
            reader.cancel()
            self._subscribers.discard(subscriber)
            engine.registry.detach(subscriber)

    async def Generate(
        self, request: engine_pb2.GenerateRequest, context: Context
    ) -> AsyncIterator[engine_pb2.GenerateResponse]:
        engine = self._ready()
        subscriber = Subscriber(grace_s=0.0)  # nobody can come back to this call's sequence
        self._subscribers.add(subscriber)
        try:
            engine.registry.submit(request.submit, subscriber)
            subscriber.end_when_done()
            while (news := await subscriber.next_news()) is not None:
                for refusal in news.refusals:  # a sequence that never started is the call's own failure
                    raise refusal.error
                for delta in news_messages(news):
                    yield engine_pb2.GenerateResponse(delta=delta)
        finally:
            self._subscribers.discard(subscriber)
            engine.registry.detach(subscriber)

    async def Score(self, request: engine_pb2.ScoreRequest, context: Context) -> engine_pb2.ScoreResponse:
        engine = self._ready()
        remaining_s = context.time_remaining()
        deadline_s = float("inf") if remaining_s is None else time.monotonic() + remaining_s
        return await engine.score(request, deadline_s)

    async def LoadAdapter(
        self, request: engine_pb2.LoadAdapterRequest, context: Context
    ) -> engine_pb2.LoadAdapterResponse:
        adapter = await self._ready().load_adapter(request.name, request.path, request.generation)
        return engine_pb2.LoadAdapterResponse(adapter=adapter_message(adapter))

    async def UnloadAdapter(
        self, request: engine_pb2.UnloadAdapterRequest, context: Context
    ) -> engine_pb2.UnloadAdapterResponse:
        remaining = await self._ready().unload_adapter(request.name, self._patience_s(context))
        return engine_pb2.UnloadAdapterResponse(remaining=remaining)

    async def ListAdapters(
        self, request: engine_pb2.ListAdaptersRequest, context: Context
    ) -> engine_pb2.ListAdaptersResponse:
        adapters = [adapter_message(adapter, retiring=retiring) for adapter, retiring in self._ready().adapters]
        return engine_pb2.ListAdaptersResponse(adapters=adapters)

    async def WatchLoad(
        self, request: engine_pb2.WatchLoadRequest, context: Context
    ) -> AsyncIterator[engine_pb2.WatchLoadResponse]:
        engine = self._ready()
        sent: engine_pb2.WatchLoadResponse | None = None
        while not self._closing.is_set():
            message = self._load(engine)
            if message != sent:
                yield message
                sent = message
            if message == self._load(engine):
                await self._until_change(engine)
            await asyncio.sleep(LOAD_INTERVAL_S)

    async def Describe(self, request: engine_pb2.DescribeRequest, context: Context) -> engine_pb2.DescribeResponse:
        engine = self._ready()
        model = engine.model
        return engine_pb2.DescribeResponse(
            model=model.identity,
            instance=IDENTITY.instance,
            generation=IDENTITY.generation,
            context_length=model.context_length,
            vocab_size=model.config.vocab_size,
            num_layers=model.config.num_layers,
            page_size_tokens=PAGE_SIZE,
            total_pages=model.num_pages,
            max_running=engine.config.max_running,
            eos_token_ids=model.config.eos_token_ids,
            architecture=model.config.architecture,
            backend=model.backend,
            modes=[
                engine_pb2.ModeDescription(mode=MODES[mode], precision=model.modes.precisions[mode])
                for mode in model.modes.ordered()
            ],
            adapters=map(adapter_name_message, engine.adapters.can_be_asked_for()),
        )

    async def Drain(self, request: engine_pb2.DrainRequest, context: Context) -> engine_pb2.DrainResponse:
        engine = self._ready()
        engine.registry.drain()
        return engine_pb2.DrainResponse(remaining=await engine.registry.wait_idle(self._patience_s(context)))

    def _patience_s(self, context: Context) -> float:
        """How long a call may wait for sequences to end."""
        remaining_s = context.time_remaining()
        return self._drain_grace_s if remaining_s is None else max(0.0, remaining_s - DRAIN_MARGIN_S)

    def close(self) -> None:
        """End all open calls after what they still have to say."""
        self._closing.set()
        for subscriber in self._subscribers:
            subscriber.close()

    def _ready(self) -> Engine:
        if self.engine is None or self._closing.is_set():
            raise Unavailable("ENGINE_NOT_READY", "the engine is starting or stopping; use another or retry")
        return self.engine

    async def _read(
        self, engine: Engine, commands: AsyncIterator[engine_pb2.RunRequest], subscriber: Subscriber
    ) -> None:
        try:
            async for command in commands:
                self._obey(engine, command, subscriber)
        finally:
            subscriber.end_when_done()

    def _obey(self, engine: Engine, command: engine_pb2.RunRequest, subscriber: Subscriber) -> None:
        match command.WhichOneof("command"):
            case "submit":
                try:
                    engine.registry.submit(command.submit, subscriber)
                except StagemeshError as error:
                    subscriber.refuse(command.submit.sequence_id, error)
            case "cancel":
                engine.registry.cancel(command.cancel.sequence_id)
            case "prefetch":
                engine.prefetch(command.prefetch)
            case "forget":
                engine.registry.forget(command.forget.tenant_id)
            case _:
                unknown = InvalidRequest("UNKNOWN_COMMAND", "send submit, cancel, prefetch or forget", field="command")
                subscriber.refuse("", unknown)

    def _load(self, engine: Engine) -> engine_pb2.WatchLoadResponse:
        return load_message(
            engine.registry.load,
            num_starting=engine.registry.num_starting,
            total_pages=engine.model.num_pages,
            max_running=engine.config.max_running,
            draining=engine.registry.draining,
            celsius=self._celsius(engine),
            kv=None if engine.core.stored is None else engine.core.stored.stats(),
            adapters=map(adapter_name_message, engine.adapters.can_be_asked_for()),
        )

    def _celsius(self, engine: Engine) -> float | None:
        if not engine.config.reads_device_sensors:
            return None
        if self._sensors is None:
            self._sensors = DeviceSensors(load_nvml())
        return self._sensors.hottest_c()

    async def _until_change(self, engine: Engine) -> None:
        """Return when the load has changed or the service closes, or after a while."""
        waits = [asyncio.ensure_future(wait) for wait in (engine.registry.load_change(), self._wait_closing())]
        try:
            await asyncio.wait(waits, timeout=LOOK_INTERVAL_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _wait_closing(self) -> None:
        await self._closing.wait()
