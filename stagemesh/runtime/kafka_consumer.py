"""The Kafka consumer: events in, handlers run side by side, positions committed only after the effect.

    poll ──▶ parse ──▶ fetch body ──▶ handle (again after failures) ──▶ store position ──▶ committed within a second
      ▲                                  │
      └──── partitions pause while all handlers are busy ◀──┘

Delivery is at least once; the same request is never handled twice at a time in one process. Handlers make the
effect idempotent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from google.protobuf.message import DecodeError

from stagemesh.api.events.v1 import events_pb2
from stagemesh.runtime.errors import StagemeshError
from stagemesh.runtime.kafka_client import Settings, client_settings
from stagemesh.runtime.offsets import OffsetTracker
from stagemesh.runtime.outbox import resolve
from stagemesh.runtime.redis_client import Redis
from stagemesh.runtime.retry import RetryPolicy
from stagemesh.runtime.telemetry import get_logger

log = get_logger(__name__)

Handler = Callable[[events_pb2.Envelope, int], Awaitable[None]]
"""Brings about the effect of one event; gets the number of the attempt, from 1. Raising means: not done."""
GiveUp = Callable[[events_pb2.Envelope, int, Exception], Awaitable[None]]
"""Records that an event could not be handled, with the number of attempts and the last error."""


class TryLater(Exception):
    """Raised by a handler when what it needs is away: the event waits, and the attempt does not count."""

    def __init__(self, reason: str, after_s: float = 0.0, *, backs_off: bool = True) -> None:
        """`backs_off`: waits grow with their number; without it, the event is handled again after `after_s` exactly."""
        super().__init__(reason)
        self.after_s = after_s
        self.backs_off = backs_off


@dataclass(frozen=True, kw_only=True)
class ConsumerConfig:
    max_in_flight: int = 4
    """Events handled side by side."""
    max_attempts: int = 3
    """After so many failed attempts an event is given up."""
    first_backoff_s: float = 0.2
    max_backoff_s: float = 10.0
    poll_timeout_s: float = 0.2
    stall_s: float = 5.0
    """With all handlers busy for so long, the partitions are paused, so that polling (and with it the group's
    rebalancing) goes on. After a pause it takes up to a second until records come again."""
    session_timeout_s: float = 6.0
    """After so long without a heartbeat, another member of the group takes over."""


@dataclass(kw_only=True)
class ConsumerCounts:
    handled: int = 0
    given_up: int = 0
    retried: int = 0
    duplicates: int = 0
    """Records of a request that was being handled already."""
    assignments: int = 0
    """How often the group gave this member its partitions."""
    skipped: int = 0
    """Records that are no envelope, or whose body is gone because the request has ended."""


class EventConsumer:
    """A member of consumer group `group` on the topics `topics`."""

    def __init__(
        self,
        *,
        bootstrap: str,
        group: str,
        topics: Sequence[str],
        redis: Redis,
        handle: Handler,
        give_up: GiveUp,
        config: ConsumerConfig | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.counts = ConsumerCounts()
        self._config = config or ConsumerConfig()
        self._settings = consumer_settings(bootstrap, group, self._config, settings)
        self._topics = list(topics)
        self._redis = redis
        self._handle, self._give_up = handle, give_up
        self._backoff = RetryPolicy(
            first_backoff_s=self._config.first_backoff_s, max_backoff_s=self._config.max_backoff_s
        )
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kafka-consumer")
        self._trackers: dict[tuple[str, int], OffsetTracker] = {}
        self._in_flight: set[asyncio.Task[None]] = set()
        self._by_request: dict[tuple[str, str], asyncio.Future[None]] = {}
        self._stopping = asyncio.Event()
        self._grace_s = 0.0
        self._paused: bool | None = False
        """None after an assignment: librdkafka keeps a pause over it, so it must be said again either way."""
        self._task: asyncio.Task[None] | None = None

    @property
    def num_in_flight(self) -> int:
        return len(self._in_flight)

    def start(self) -> None:
        self._task = asyncio.create_task(self.run(), name=f"consumer {','.join(self._topics)}")

    async def stop(self, grace_s: float) -> None:
        """Take no new events, let the running ones end within `grace_s`, commit, leave the group.

        What has not ended is cancelled and will be delivered again.
        """
        self._grace_s = grace_s
        self._stopping.set()
        if self._task is not None:
            await self._task
        self._thread.shutdown()

    async def run(self) -> None:
        """Consume until `stop`; with the broker away it waits, after a fatal error it joins the group anew."""
        failures = 0
        while not self._stopping.is_set():
            consumer = Consumer(self._settings)
            consumer.subscribe(self._topics, on_assign=self._assigned, on_lost=self._lost)
            try:
                await self._consume(consumer)
                failures = 0
            except Exception:
                failures += 1
                log.exception("consumer starts anew", topics=self._topics)
                await self._sleep(self._backoff.backoff_s(failures))
            finally:
                # Positions can be stored while the consumer is open, so it stays open until its events have ended.
                await self._settle()
                await self._in_thread(consumer.close)

    async def _consume(self, consumer: Consumer) -> None:
        while not self._stopping.is_set():
            timeout_s = 0.0 if await self._hold(consumer) else self._config.poll_timeout_s
            message = await self._in_thread(partial(consumer.poll, timeout_s))
            if message is None or self._stopping.is_set():
                continue  # what is not begun is delivered again
            error = message.error()
            if error is None:
                self._begin(consumer, message)
            elif error.fatal():
                raise KafkaException(error)
            elif error.code() != KafkaError._PARTITION_EOF:
                log.warning("consumer error", error=str(error))

    async def _hold(self, consumer: Consumer) -> bool:
        """Wait while all handlers are busy; pauses the partitions when that takes long. Whether they are still busy."""
        if self._full():
            await self._wait_for_room(self._config.stall_s)
        full = self._full()
        if full != self._paused:
            assigned = consumer.assignment()
            (consumer.pause if full else consumer.resume)(assigned)
            self._paused = full
        return full

    def _full(self) -> bool:
        return len(self._in_flight) >= self._config.max_in_flight

    def _begin(self, consumer: Consumer, message: Message) -> None:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        tracker = self._trackers.setdefault((topic, partition), OffsetTracker())
        if not tracker.can_begin(offset):
            tracker = self._trackers[(topic, partition)] = OffsetTracker()
        tracker.begin(offset)
        task = asyncio.create_task(self._process(consumer, message, tracker))
        self._in_flight.add(task)
        task.add_done_callback(self._in_flight.discard)

    async def _process(self, consumer: Consumer, message: Message, tracker: OffsetTracker) -> None:
        envelope = await self._load(message)
        if envelope is None:
            self.counts.skipped += 1
        else:
            await self._once(envelope)
        position = tracker.finish(message.offset())
        if self._trackers.get((message.topic(), message.partition())) is not tracker:
            return  # the partition went to another member, or its log began anew: the event may come again
        try:
            consumer.store_offsets(offsets=[TopicPartition(message.topic(), message.partition(), position)])
        except KafkaException as error:
            log.info("position not stored, the event may come again", error=str(error))

    async def _load(self, message: Message) -> events_pb2.Envelope | None:
        try:
            envelope = events_pb2.Envelope.FromString(message.value() or b"")
        except DecodeError:
            log.error("record is no envelope", topic=message.topic(), offset=message.offset())  # noqa: TRY400  no trace
            return None
        attempt = 0
        while True:
            attempt += 1
            try:
                return await resolve(self._redis, envelope)
            except StagemeshError as error:
                log.warning("body not loaded", request_id=envelope.request_id, reason=error.reason)
                await asyncio.sleep(self._backoff.backoff_s(attempt))

    async def _once(self, envelope: events_pb2.Envelope) -> None:
        """Handle the event, or wait for the task that handles the same request already."""
        request = (envelope.tenant_id, envelope.request_id)
        if running := self._by_request.get(request):
            self.counts.duplicates += 1
            await asyncio.shield(running)
            return
        done = self._by_request[request] = asyncio.get_running_loop().create_future()
        try:
            await self._until_done(envelope)
            done.set_result(None)
        finally:
            done.cancel()
            del self._by_request[request]

    async def _until_done(self, envelope: events_pb2.Envelope) -> None:
        attempt, waits = 1, 0
        while True:
            try:
                await self._handle(envelope, attempt)
            except TryLater as later:
                waits += later.backs_off
                await asyncio.sleep(max(later.after_s, self._backoff.backoff_s(waits) if later.backs_off else 0.0))
            except Exception as error:
                self.counts.retried += 1
                log.warning("event failed", request_id=envelope.request_id, attempt=attempt, exc_info=error)
                if attempt >= self._config.max_attempts:
                    await self._surrender(envelope, attempt, error)
                    return
                await asyncio.sleep(self._backoff.backoff_s(attempt))
                attempt += 1
            else:
                self.counts.handled += 1
                return

    async def _surrender(self, envelope: events_pb2.Envelope, attempts: int, error: Exception) -> None:
        tries = 0
        while True:
            tries += 1
            try:
                await self._give_up(envelope, attempts, error)
            except Exception:  # an event is never dropped silently: its failure must be on record first
                log.exception("failure not recorded yet", request_id=envelope.request_id)
                await asyncio.sleep(self._backoff.backoff_s(tries))
            else:
                self.counts.given_up += 1
                return

    def _assigned(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        # Called within poll, in the consumer's thread, while the event loop waits for that poll.
        for item in partitions:
            self._trackers[(item.topic, item.partition)] = OffsetTracker()
        self._paused = None
        self.counts.assignments += 1
        log.info("partitions assigned", partitions=[f"{item.topic}[{item.partition}]" for item in partitions])

    def _lost(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for item in partitions:
            self._trackers.pop((item.topic, item.partition), None)

    async def _settle(self) -> None:
        while self._in_flight and not self._stopping.is_set():
            await self._wait_for_room(self._config.stall_s)
        if self._in_flight:
            await asyncio.wait(self._in_flight, timeout=self._grace_s)
        for task in self._in_flight:
            task.cancel()
        await asyncio.gather(*self._in_flight, return_exceptions=True)

    async def _wait_for_room(self, timeout_s: float) -> None:
        """Until an event ends or the consumer is told to stop."""
        stopped = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait({*self._in_flight, stopped}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()

    async def _sleep(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return

    async def _in_thread(self, call: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)


def consumer_settings(
    bootstrap: str, group: str, config: ConsumerConfig, settings: Settings | None = None
) -> dict[str, Any]:
    """librdkafka's settings for a member of `group`: positions are stored by hand and committed every second."""
    merged: dict[str, Any] = {
        "auto.offset.reset": "earliest",
        "enable.auto.commit": True,
        "auto.commit.interval.ms": 1000,
        "enable.auto.offset.store": False,
        "max.poll.interval.ms": 300_000,
        "fetch.wait.max.ms": 10,
        "queued.max.messages.kbytes": 16 * 1024,
        "fetch.max.bytes": 8 * 1024 * 1024,
        **client_settings(bootstrap, settings),
        "group.id": group,
    }
    if merged.get("group.protocol") == "consumer":  # then the broker decides about the rest
        return merged
    return {
        "partition.assignment.strategy": "range,roundrobin",
        "session.timeout.ms": int(config.session_timeout_s * 1000),
        "heartbeat.interval.ms": int(config.session_timeout_s * 1000 / 6),
        **merged,
    }
