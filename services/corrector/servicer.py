"""CorrectorService: from messages to corrections and back."""

from __future__ import annotations

from services.corrector.config import CorrectorConfig
from services.corrector.corrections import response_of
from services.corrector.corrector import Corrector
from stagemesh.api.corrector.v1 import corrector_pb2, corrector_pb2_grpc
from stagemesh.runtime.deadline import Deadline
from stagemesh.runtime.errors import InvalidRequest
from stagemesh.runtime.interceptors import Context
from stagemesh.validation.messages import constraint_of, demands_of
from stagemesh.validation.sets.sets import AnchorSets, with_sets


class CorrectorServicer(corrector_pb2_grpc.CorrectorServiceServicer):
    def __init__(self, corrector: Corrector, config: CorrectorConfig, sets: AnchorSets | None) -> None:
        self._corrector = corrector
        self._config = config
        self._sets = sets

    async def Correct(self, request: corrector_pb2.CorrectRequest, context: Context) -> corrector_pb2.CorrectResponse:
        """Raises InvalidRequest for what cannot be enforced; Exhausted or Unavailable when nothing can be said."""
        if request.max_regenerations and not request.request_id:
            raise InvalidRequest("MISSING_ID", "request_id must be given", field="request_id")
        remaining_s = context.time_remaining()
        deadline = Deadline.after(self._config.default_timeout_s if remaining_s is None else remaining_s)
        constraint = constraint_of(request.constraint)
        async with with_sets(self._sets, request.tenant_id, demands_of(request)) as demands:
            correction = await self._corrector.correct(request, constraint, demands, deadline)
        response = response_of(correction.repair)
        response.usage.CopyFrom(correction.usage)
        response.regenerations = correction.num_regenerations
        return response
