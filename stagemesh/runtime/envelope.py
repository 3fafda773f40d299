"""Making envelopes: who, when, which version."""

from __future__ import annotations

import uuid_utils

from stagemesh.api.events.v1 import events_pb2
from stagemesh.runtime.topics import Topic


def new_envelope(topic: Topic, *, tenant_id: str, request_id: str) -> events_pb2.Envelope:
    """An envelope without a body, of now."""
    envelope = events_pb2.Envelope(
        event_id=str(uuid_utils.uuid7()),
        request_id=request_id,
        tenant_id=tenant_id,
        schema_version=topic.schema_version,
    )
    envelope.occurred_at.GetCurrentTime()
    return envelope
