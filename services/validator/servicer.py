"""ValidatorService: from messages to verdicts."""

from __future__ import annotations

from stagemesh.api.validator.v1 import validator_pb2, validator_pb2_grpc
from stagemesh.runtime.interceptors import Context
from stagemesh.validation.checker import Checker
from stagemesh.validation.messages import constraint_of, demands_of, verdict_message
from stagemesh.validation.sets.sets import AnchorSets, with_sets


class ValidatorServicer(validator_pb2_grpc.ValidatorServiceServicer):
    """Both methods raise InvalidRequest, with the place, for what cannot be enforced."""

    def __init__(self, checker: Checker, sets: AnchorSets | None) -> None:
        self._checker, self._sets = checker, sets

    async def Validate(
        self, request: validator_pb2.ValidateRequest, context: Context
    ) -> validator_pb2.ValidateResponse:
        constraint = constraint_of(request.constraint)
        async with with_sets(self._sets, request.tenant_id, demands_of(request)) as demands:
            verdict = await self._checker.validate(request.text, constraint, demands)
        return validator_pb2.ValidateResponse(verdict=verdict_message(verdict))

    async def Check(self, request: validator_pb2.CheckRequest, context: Context) -> validator_pb2.CheckResponse:
        constraint = constraint_of(request.constraint)
        async with with_sets(self._sets, request.tenant_id, demands_of(request)) as demands:
            await self._checker.check(constraint, demands, request.tenant_id)
        return validator_pb2.CheckResponse()
