"""QualityService: a caller's own texts, handed on to the validator under the name of the caller's tenant."""

from __future__ import annotations

import grpc

from services.gateway.config import GatewayConfig
from services.gateway.core import Gateway
from services.gateway.corrections import CorrectionPublisher
from services.gateway.metadata import deadline_of, tenant_of
from services.gateway.peers import Peers
from stagemesh.api.corrector.v1 import corrector_pb2
from stagemesh.api.gateway.v1 import quality_pb2, quality_pb2_grpc
from stagemesh.api.validator.v1 import validator_pb2
from stagemesh.runtime.channel import call_metadata
from stagemesh.runtime.errors import Unavailable, from_rpc
from stagemesh.runtime.interceptors import Context

SHARE = 0.9
"""Of the caller's time, for the call to the validator."""
BARE = frozenset({"UNAVAILABLE", "CANCELLED", "UNKNOWN", "DEADLINE_EXCEEDED"})
"""Names of gRPC codes that stand for a reason where the validator gave none."""


class QualityServicer(quality_pb2_grpc.QualityServiceServicer):
    """Raises what the validator says, the refusals of a wrong key, and Unavailable where no service answers."""

    def __init__(self, gateway: Gateway, peers: Peers, config: GatewayConfig, corrections: CorrectionPublisher) -> None:
        self._gateway, self._config, self._corrections = gateway, config, corrections
        self._validator, self._corrector = peers.validator, peers.corrector

    async def Validate(self, request: quality_pb2.ValidateRequest, context: Context) -> quality_pb2.ValidateResponse:
        tenant = await tenant_of(self._gateway, context)
        asked = validator_pb2.ValidateRequest(
            text=request.text,
            anchors=request.anchors,
            rules=request.rules,
            text_rules=request.text_rules,
            tenant_id=tenant.tenant_id,
        )
        if request.HasField("constraint"):
            asked.constraint.CopyFrom(request.constraint)
        timeout_s = deadline_of(self._config, context).budget_s(self._config.validator_timeout_s) * SHARE
        try:
            answer = await self._validator.Validate(asked, timeout=timeout_s, metadata=call_metadata())
        except grpc.RpcError as error:
            found = from_rpc(error)
            if found.reason in BARE:
                raise Unavailable(
                    "VALIDATOR_UNAVAILABLE", "no validator answers; `stagemesh status` shows it", retry_after_ms=500
                ) from error
            raise found from error
        return quality_pb2.ValidateResponse(verdict=answer.verdict)

    async def Correct(self, request: quality_pb2.CorrectRequest, context: Context) -> quality_pb2.CorrectResponse:
        tenant = await tenant_of(self._gateway, context)
        asked = corrector_pb2.CorrectRequest(
            tenant_id=tenant.tenant_id,
            text=request.text,
            anchors=request.anchors,
            rules=request.rules,
            text_rules=request.text_rules,
            source_text=request.source,
            min_confidence=request.min_confidence,
        )
        if request.HasField("constraint"):
            asked.constraint.CopyFrom(request.constraint)
        timeout_s = deadline_of(self._config, context).budget_s(self._config.corrector_timeout_s) * SHARE
        try:
            answer = await self._corrector.Correct(asked, timeout=timeout_s, metadata=call_metadata())
        except grpc.RpcError as error:
            found = from_rpc(error)
            if found.reason in BARE:
                raise Unavailable(
                    "CORRECTOR_UNAVAILABLE", "no corrector answers; `stagemesh status` shows it", retry_after_ms=500
                ) from error
            raise found from error
        if answer.changes or not answer.valid:
            self._corrections.offer_pair(asked, answer)
        return quality_pb2.CorrectResponse(correction=answer)
