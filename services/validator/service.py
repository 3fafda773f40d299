"""The validator as a process part: its sandbox and its life."""

from __future__ import annotations

from collections.abc import Sequence

import grpc

from services.validator.config import ValidatorConfig
from services.validator.servicer import ValidatorServicer
from stagemesh.api.validator.v1 import validator_pb2, validator_pb2_grpc
from stagemesh.validation.checker import Checker
from stagemesh.validation.sandbox import Sandbox


class ValidatorService:
    service_names: Sequence[str] = (validator_pb2.DESCRIPTOR.services_by_name["ValidatorService"].full_name,)

    def __init__(self, config: ValidatorConfig) -> None:
        self._sandbox = Sandbox("stagemesh.validation.worker", config.sandbox())
        self._checker = Checker(self._sandbox, config.checker())

    def register(self, server: grpc.aio.Server) -> None:
        validator_pb2_grpc.add_ValidatorServiceServicer_to_server(ValidatorServicer(self._checker), server)

    async def start(self) -> None:
        await self._sandbox.warm_up()

    async def drain(self, grace_s: float) -> None:
        """Nothing to hand over: calls end within their time."""

    async def close(self) -> None:
        await self._sandbox.close()
