"""FaultsService: post, list and take down faults at run time."""

from __future__ import annotations

import hmac

from stagemesh.api.faults.v1 import faults_pb2, faults_pb2_grpc
from stagemesh.runtime.channel import MESH_TOKEN_KEY
from stagemesh.runtime.errors import Forbidden, InvalidRequest
from stagemesh.runtime.faults.board import Board, Posted
from stagemesh.runtime.faults.fault import Fault, Kind
from stagemesh.runtime.interceptors import Context

KINDS = {
    faults_pb2.FAULT_KIND_ERROR: Kind.ERROR,
    faults_pb2.FAULT_KIND_DELAY: Kind.DELAY,
    faults_pb2.FAULT_KIND_HANG: Kind.HANG,
    faults_pb2.FAULT_KIND_NAN: Kind.NAN,
    faults_pb2.FAULT_KIND_OOM: Kind.OOM,
    faults_pb2.FAULT_KIND_KILL: Kind.KILL,
}
NUMBERS = {kind: number for number, kind in KINDS.items()}


class FaultsServicer(faults_pb2_grpc.FaultsServiceServicer):
    """All methods raise Forbidden without the mesh token, and in production."""

    def __init__(self, board: Board, mesh_token: str) -> None:
        self._board = board
        self._mesh_token = mesh_token.encode()

    async def Inject(self, request: faults_pb2.InjectRequest, context: Context) -> faults_pb2.InjectResponse:
        self._check(context)
        self._board.post(fault_of(request.fault))
        return faults_pb2.InjectResponse()

    async def List(self, request: faults_pb2.ListRequest, context: Context) -> faults_pb2.ListResponse:
        self._check(context)
        return faults_pb2.ListResponse(faults=map(_message, self._board.posted()))

    async def Clear(self, request: faults_pb2.ClearRequest, context: Context) -> faults_pb2.ClearResponse:
        self._check(context)
        return faults_pb2.ClearResponse(num_cleared=self._board.clear(request.stage))

    def _check(self, context: Context) -> None:
        metadata = dict(context.invocation_metadata() or ())
        given = str(metadata.get(MESH_TOKEN_KEY, "")).encode()
        if not self._mesh_token or not hmac.compare_digest(given, self._mesh_token):
            raise Forbidden("MESH_TOKEN_REQUIRED", "faults are posted with the mesh token only")
        self._board.check_allowed()


def fault_of(message: faults_pb2.Fault) -> Fault:
    """Raises InvalidRequest."""
    if message.kind not in KINDS:
        raise InvalidRequest("INVALID_FAULT", "name the kind of the fault", field="fault.kind")
    return Fault(
        stage=message.stage,
        kind=KINDS[message.kind],
        rate=message.rate or 1.0,
        times=message.times,
        wait_ms=message.wait_ms,
        seed=message.seed,
        layer=message.layer if message.HasField("layer") else None,
    )


def message_of(fault: Fault) -> faults_pb2.Fault:
    return faults_pb2.Fault(
        stage=fault.stage,
        kind=NUMBERS[fault.kind],
        rate=fault.rate,
        times=fault.times,
        wait_ms=fault.wait_ms,
        seed=fault.seed,
        layer=fault.layer,
    )


def _message(posted: Posted) -> faults_pb2.PostedFault:
    return faults_pb2.PostedFault(fault=message_of(posted.fault), num_struck=posted.num_struck)
