"""What surrounds the choices in every object of one reply."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from services.gateway.http.extras import extras, usage
from services.gateway.http.shape import JsonObject, Shape
from stagemesh.api.gateway.v1 import gateway_pb2

UUID7 = 7


@dataclass(frozen=True, kw_only=True)
class Envelope:
    shape: Shape
    request_id: str
    created: int
    """Unix time in seconds."""
    model: str

    def whole(self, finals: Sequence[gateway_pb2.Final]) -> JsonObject:
        """The object of a reply that is no stream. Choices of several requests are numbered through."""
        choices: list[JsonObject] = []
        for final in finals:
            choices += [self.shape.choice(len(choices) + i, choice) for i, choice in enumerate(final.choices)]
        return {
            **self._frame(self.shape.whole_object, choices),
            "usage": usage(finals),
            "stagemesh": extras(finals),
        }

    def chunk(self, choices: list[JsonObject], **more: object) -> JsonObject:
        """One object of a stream."""
        return {**self._frame(self.shape.chunk_object, choices), **more}

    def _frame(self, kind: str, choices: list[JsonObject]) -> JsonObject:
        return {
            "id": self.shape.id_prefix + self.request_id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": None,
            "choices": choices,
        }


def created_at(request_id: str) -> int:
    """When a request was made: a UUIDv7 says so itself; of other IDs nothing is known, and it is now."""
    identity = uuid.UUID(request_id)
    return (identity.int >> 80) // 1000 if identity.version == UUID7 else int(time.time())
