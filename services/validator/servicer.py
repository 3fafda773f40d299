"""ValidatorService: from messages to verdicts."""

from __future__ import annotations

from stagemesh.api.validator.v1 import validator_pb2, validator_pb2_grpc
from stagemesh.runtime.interceptors import Context
from stagemesh.validation.checker import Checker
from stagemesh.validation.messages import constraint_of, demands_of, verdict_message


class ValidatorServicer(validator_pb2_grpc.ValidatorServiceServicer):
    """Both methods raise InvalidRequest, with the place, for what cannot be enforced."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker

    async def Validate(
        self, request: validator_pb2.ValidateRequest, context: Context
    ) -> validator_pb2.ValidateResponse:
        verdict = await self._checker.validate(request.text, constraint_of(request.constraint), demands_of(request))
        return validator_pb2.ValidateResponse(verdict=verdict_message(verdict))

    async def Check(self, request: validator_pb2.CheckRequest, context: Context) -> validator_pb2.CheckResponse:
        await self._checker.check(constraint_of(request.constraint), demands_of(request))
        return validator_pb2.CheckResponse()
