"""What a body asked for: the requests to submit, and how to reply."""

from __future__ import annotations

import re
from dataclasses import dataclass

from services.gateway.http.shape import Shape
from services.gateway.job import has_demands
from stagemesh.api.gateway.v1 import gateway_pb2

UNGUIDED_FORMATS = (
    "idn-email", "idn-hostname", "iri", "iri-reference", "uri-reference", "uri-template", "json-pointer",
    "relative-json-pointer", "regex",
)  # fmt: skip
"""Formats that the engine's grammar does not hold an answer to; one that is valid without them may be mended."""
_UNGUIDED = re.compile(rf'"format"\s*:\s*"(?:{"|".join(UNGUIDED_FORMATS)})"')


@dataclass(frozen=True, kw_only=True)
class Order:
    requests: tuple[gateway_pb2.InferenceRequest, ...]
    """One, or one per prompt of a completion."""
    shape: Shape
    stream: bool
    include_usage: bool
    """Streams end with a usage chunk."""

    @property
    def num_choices(self) -> int:
        """Answers per request."""
        return self.requests[0].sampling.n or 1

    @property
    def may_be_corrected(self) -> bool:
        """The text can still change after it was generated, so it is sent when it is final."""
        schema = self.requests[0].constraint.json_schema
        return has_demands(self.requests[0]) or _UNGUIDED.search(schema) is not None
