"""The validator as a process part: its sandbox, its stored anchor sets and its life."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import grpc

from services.validator.anchor_sets_servicer import AnchorSetServicer
from services.validator.config import ValidatorConfig
from services.validator.rule_sets_servicer import RuleSetServicer
from services.validator.servicer import ValidatorServicer
from stagemesh.api.validator.v1 import (
    anchor_sets_pb2,
    anchor_sets_pb2_grpc,
    rule_sets_pb2,
    rule_sets_pb2_grpc,
    validator_pb2,
    validator_pb2_grpc,
)
from stagemesh.validation.checker import Checker
from stagemesh.validation.sandbox import Sandbox
from stagemesh.validation.sets.sets import AnchorSets


class ValidatorService:
    service_names: Sequence[str] = (
        validator_pb2.DESCRIPTOR.services_by_name["ValidatorService"].full_name,
        anchor_sets_pb2.DESCRIPTOR.services_by_name["AnchorSetService"].full_name,
        rule_sets_pb2.DESCRIPTOR.services_by_name["RuleSetService"].full_name,
    )

    def __init__(self, config: ValidatorConfig, *, ledger_url: str = "", state_dir: Path | None = None) -> None:
        """Must be made inside the running event loop. Without `ledger_url` there are no stored anchor sets."""
        self._sandbox = Sandbox("stagemesh.validation.worker", config.sandbox())
        self._checker = Checker(self._sandbox, config.checker())
        self._sets: AnchorSets | None = None
        if ledger_url:
            self._sets = AnchorSets(ledger_url, config.anchor_sets, service="validator", state_dir=state_dir)

    def register(self, server: grpc.aio.Server) -> None:
        servicer = ValidatorServicer(self._checker, self._sets)
        validator_pb2_grpc.add_ValidatorServiceServicer_to_server(servicer, server)
        anchor_sets_pb2_grpc.add_AnchorSetServiceServicer_to_server(AnchorSetServicer(self._sets), server)
        rule_sets = RuleSetServicer(self._checker, self._sets)
        rule_sets_pb2_grpc.add_RuleSetServiceServicer_to_server(rule_sets, server)

    async def start(self) -> None:
        """Ready with or without the ledger: a call that names a stored set says by itself when it is not there."""
        await self._sandbox.warm_up()
        if self._sets is not None:
            self._sets.start()

    async def drain(self, grace_s: float) -> None:
        """Nothing to hand over: calls end within their time."""

    async def close(self) -> None:
        if self._sets is not None:
            await self._sets.close()
        await self._sandbox.close()
