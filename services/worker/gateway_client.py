"""The gateway, as a worker sees it: run this deferred request, or give it up."""

from __future__ import annotations

import grpc

from stagemesh.api.gateway.v1 import gateway_pb2, gateway_pb2_grpc
from stagemesh.runtime import context
from stagemesh.runtime.channel import call_metadata, dial
from stagemesh.runtime.errors import from_rpc

RUN_KEY = "x-deferred-run"
RUN, GIVE_UP = "1", "give-up"
GIVE_UP_TIMEOUT_S = 10.0


class GatewayClient:
    """The gateway keeps the payload and the outcome; a worker names the request only. Raises StagemeshError."""

    def __init__(self, address: str, run_timeout_s: float) -> None:
        self._channel = dial([address])
        self._stub = gateway_pb2_grpc.GatewayServiceStub(self._channel)
        self._run_timeout_s = run_timeout_s

    async def run(self, tenant_id: str, request_id: str) -> gateway_pb2.Final:
        """Run the stored request to its end, or get the outcome that it has already."""
        return await self._complete(tenant_id, request_id, RUN, self._run_timeout_s)

    async def give_up(self, tenant_id: str, request_id: str) -> gateway_pb2.Final:
        """Dead-letter the request unless it has ended; gives the outcome that counts."""
        return await self._complete(tenant_id, request_id, GIVE_UP, GIVE_UP_TIMEOUT_S)

    async def close(self) -> None:
        await self._channel.close()

    async def _complete(self, tenant_id: str, request_id: str, kind: str, timeout_s: float) -> gateway_pb2.Final:
        context.tenant_id.set(tenant_id)  # one task per event, so this is this event's context
        context.request_id.set(request_id)
        request = gateway_pb2.CompleteRequest(request=gateway_pb2.InferenceRequest(request_id=request_id))
        try:
            reply = await self._stub.Complete(request, timeout=timeout_s, metadata=call_metadata((RUN_KEY, kind)))
        except grpc.RpcError as error:
            raise from_rpc(error) from error
        return reply.final
