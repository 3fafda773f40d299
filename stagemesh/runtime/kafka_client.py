"""The Kafka producer, and the settings that every client of the mesh shares."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from stagemesh.runtime.config import ConfigError
from stagemesh.runtime.errors import Exhausted, InvalidRequest, StagemeshError, Unavailable
from stagemesh.runtime.topics import MAX_RECORD_BYTES

Settings = Mapping[str, str | int | bool]

POLL_INTERVAL_S = 0.1
RECORD_OVERHEAD_BYTES = 4096


class OncePer(logging.Filter):
    """Passes each kind of message at most once per `interval_s`: librdkafka repeats itself while a broker is away."""

    def __init__(self, interval_s: float) -> None:
        super().__init__()
        self._interval_s = interval_s
        self._next_s: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind = str(record.args[0]) if isinstance(record.args, tuple) and record.args else str(record.msg)
        if len(self._next_s) > 256:
            self._next_s.clear()
        now_s = time.monotonic()
        if now_s < self._next_s.get(kind, 0.0):
            return False
        self._next_s[kind] = now_s + self._interval_s
        return True


def client_logger() -> logging.Logger:
    """Where librdkafka's own messages go."""
    logger = logging.getLogger("librdkafka")
    if not logger.filters:
        logger.addFilter(OncePer(10.0))
    return logger


def client_settings(bootstrap: str, settings: Settings | None = None) -> dict[str, Any]:
    """Settings of every client: quick reconnects, and a new bootstrap when all known brokers are gone.

    `settings` (TLS, SASL …) come on top. Raises ConfigError when no broker is configured.
    """
    if not bootstrap:
        raise ConfigError("kafka_bootstrap: a Kafka broker is needed, e.g. STAGEMESH_KAFKA_BOOTSTRAP=127.0.0.1:9092")
    return {
        "bootstrap.servers": bootstrap,
        # An embedded broker comes back at another port, and only its bootstrap address stays.
        "metadata.recovery.strategy": "rebootstrap",
        "reconnect.backoff.ms": 100,
        "reconnect.backoff.max.ms": 1000,
        "topic.metadata.refresh.interval.ms": 10_000,
        "allow.auto.create.topics": True,
        "log.connection.close": False,
        "log_level": 4,
        "logger": client_logger(),
        **(settings or {}),
    }


class EventProducer:
    """Sends records and says when the broker has them. Belongs to the event loop in which it was made.

    Its buffer is bounded and each record has a delivery deadline. librdkafka's callbacks come from a thread of its own.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        delivery_timeout_s: float = 5.0,
        max_buffered: int = 10_000,
        settings: Settings | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._producer = Producer(
            {
                **client_settings(bootstrap, {k: v for k, v in (settings or {}).items() if not k.startswith("group.")}),
                "acks": "all",
                "enable.idempotence": False,  # the mock broker's is partial, and consumers deduplicate by request ID
                "linger.ms": 5,
                "message.timeout.ms": int(delivery_timeout_s * 1000),
                "message.max.bytes": MAX_RECORD_BYTES + RECORD_OVERHEAD_BYTES,
                "queue.buffering.max.messages": max_buffered,
                "queue.buffering.max.kbytes": 64 * 1024,
            }
        )
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="kafka-producer", daemon=True)
        self._thread.start()

    async def send(self, topic: str, key: str, value: bytes) -> None:
        """Send one record and wait until the broker has acknowledged it.

        Raises Unavailable (KAFKA_UNAVAILABLE) after the delivery deadline, Exhausted (KAFKA_BUFFER_FULL) at once,
        InvalidRequest (EVENT_TOO_LARGE) for a record over the limit.
        """
        delivered: asyncio.Future[None] = self._loop.create_future()

        def report(error: KafkaError | None, _message: Message) -> None:
            self._loop.call_soon_threadsafe(_settle, delivered, error)

        try:
            self._producer.produce(topic, value=value, key=key.encode(), on_delivery=report)
        except BufferError:
            raise Exhausted("KAFKA_BUFFER_FULL", "too many events wait for the broker", retry_after_ms=1000) from None
        except KafkaException as error:
            raise _as_error(error.args[0]) from error
        await delivered

    async def close(self, timeout_s: float = 5.0) -> None:
        """Wait for what is under way, at most `timeout_s`, and end. What is left then fails."""
        await asyncio.to_thread(self._producer.flush, timeout_s)
        self._producer.purge()
        self._closing.set()
        await asyncio.to_thread(self._thread.join, timeout_s)

    def _poll(self) -> None:
        while not self._closing.is_set():
            self._producer.poll(POLL_INTERVAL_S)
        self._producer.poll(0)


def _settle(delivered: asyncio.Future[None], error: KafkaError | None) -> None:
    if delivered.done():  # its caller gave up
        return
    if error is None:
        delivered.set_result(None)
    else:
        delivered.set_exception(_as_error(error))


def _as_error(error: KafkaError) -> StagemeshError:
    if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        return InvalidRequest("EVENT_TOO_LARGE", f"an event's record is larger than {MAX_RECORD_BYTES} bytes")
    return Unavailable("KAFKA_UNAVAILABLE", f"the broker did not take the event ({error.name()})", retry_after_ms=1000)
