"""The Kafka topics, all in one place. Every record is an `events.v1.Envelope` with the request ID as its key."""

from __future__ import annotations

from dataclasses import dataclass

MAX_RECORD_BYTES = 256 * 1024
"""A larger envelope lies in the ledger Redis and its record carries only the key of it."""


@dataclass(frozen=True, kw_only=True)
class Topic:
    base_name: str
    """Name without the configured prefix; its last part is the major version of the schema."""
    schema_version: int
    """Goes into `Envelope.schema_version`; grows with each addition to the body."""

    def name(self, prefix: str) -> str:
        """The name at the broker; `prefix` is `MeshConfig.kafka_topic_prefix`."""
        return prefix + self.base_name


ANSWERS_STABLE = Topic(base_name="stagemesh.answers.stable.v1", schema_version=1)
"""AnswerRecorded: what callers got. Consumed by the differ."""
DEFERRED = Topic(base_name="stagemesh.deferred.v1", schema_version=1)
"""RequestDeferred: work for later. Consumed by the worker."""
DEFERRED_DEAD = Topic(base_name="stagemesh.deferred.dead.v1", schema_version=1)
"""DeadLetter: deferred requests that were given up. For operators."""
ALERTS = Topic(base_name="stagemesh.alerts.v1", schema_version=1)
"""Alert: what an operator should hear of. For whoever watches the mesh."""
CORRECTIONS = Topic(base_name="stagemesh.corrections.v1", schema_version=1)
"""CorrectionRecorded and UserErased, of tenants that share their corrections. For `stagemesh corrector collect`."""

ALL = (ANSWERS_STABLE, DEFERRED, DEFERRED_DEAD, ALERTS, CORRECTIONS)
