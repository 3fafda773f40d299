"""What every call of every service passes: the mesh token, the context, and the mapping of errors to statuses."""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from grpc_status import rpc_status

from stagemesh.runtime import context
from stagemesh.runtime.channel import MESH_TOKEN_KEY
from stagemesh.runtime.errors import Internal, InvalidRequest, StagemeshError, Unauthenticated, from_rpc, to_status
from stagemesh.runtime.faults.board import board
from stagemesh.runtime.faults.calls import at_call
from stagemesh.runtime.faults.header import HEADER as FAULT_KEY
from stagemesh.runtime.identity import INSTANCE_KEY, process_identity
from stagemesh.runtime.telemetry import get_logger

Context = grpc.aio.ServicerContext[Any, Any]
"""The one alias for servicer contexts, for strict type checking."""

OPEN_METHODS = ("/grpc.health.", "/grpc.reflection.")
"""Prefixes of methods that need no mesh token."""

log = get_logger(__name__)


class _Malformed:
    def __init__(self, why: str) -> None:
        self.why = why


def _checked(request: Any) -> Any:
    """The request, or the stream of requests, without malformed messages. Raises InvalidRequest for one."""
    if isinstance(request, _Malformed):
        raise InvalidRequest("MALFORMED_MESSAGE", f"the message cannot be read: {request.why}"[:300])
    return _checked_stream(request) if isinstance(request, AsyncIterable) else request


async def _checked_stream(requests: AsyncIterable[Any]) -> AsyncIterator[Any]:
    async for request in requests:
        yield _checked(request)


async def abort_with(grpc_context: Context, error: StagemeshError) -> None:
    """End the call with the error's rich status. Always raises."""
    await grpc_context.abort_with_status(rpc_status.to_status(to_status(error)))


class CallInterceptor(grpc.aio.ServerInterceptor):
    """Binds the context of a call and turns exceptions into typed statuses."""

    def __init__(self, mesh_token: str) -> None:
        self._mesh_token = mesh_token.encode()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        handler = await continuation(handler_call_details)
        if handler is None or handler_call_details.method.startswith(OPEN_METHODS):
            return handler
        return self._wrap(handler, handler_call_details.method)

    def _enter(self, grpc_context: Context) -> dict[str, str]:
        """Bind the context; gives the call's metadata."""
        grpc_context.set_trailing_metadata(((INSTANCE_KEY, str(process_identity())),))
        metadata = {key: value for key, value in grpc_context.invocation_metadata() or () if isinstance(value, str)}
        if self._mesh_token and not hmac.compare_digest(metadata.get(MESH_TOKEN_KEY, "").encode(), self._mesh_token):
            raise Unauthenticated(
                "MESH_TOKEN_REQUIRED", "internal services take calls from their own mesh only; call the gateway"
            )
        for key, variable in context.METADATA_KEYS.items():
            if key in metadata:
                variable.set(metadata[key])
        return metadata

    def _deserializer(self, deserialize: Any) -> Any:
        """gRPC turns a malformed message into INTERNAL; as a value it becomes INVALID_ARGUMENT."""

        def call(data: bytes) -> Any:
            try:
                return deserialize(data)
            except DecodeError as error:
                return _Malformed(str(error))

        return call

    def _wrap(self, handler: grpc.RpcMethodHandler[Any, Any], method: str) -> grpc.RpcMethodHandler[Any, Any]:
        if handler.response_streaming:
            behavior = handler.stream_stream if handler.request_streaming else handler.unary_stream
            wrap = (
                grpc.stream_stream_rpc_method_handler
                if handler.request_streaming
                else grpc.unary_stream_rpc_method_handler
            )
            return wrap(
                self._streaming(behavior, method),
                self._deserializer(handler.request_deserializer),
                handler.response_serializer,
            )
        behavior = handler.stream_unary if handler.request_streaming else handler.unary_unary
        wrap = (
            grpc.stream_unary_rpc_method_handler if handler.request_streaming else grpc.unary_unary_rpc_method_handler
        )
        return wrap(
            self._single(behavior, method),
            self._deserializer(handler.request_deserializer),
            handler.response_serializer,
        )

    def _single(self, behavior: Any, method: str) -> Any:
        async def call(request: Any, grpc_context: Context) -> Any:
            try:
                metadata = self._enter(grpc_context)
                if board.is_armed or FAULT_KEY in metadata:
                    await at_call(method, metadata)
                return await behavior(_checked(request), grpc_context)
            except Exception as error:  # noqa: BLE001  the boundary: everything becomes a status
                await abort_with(grpc_context, as_stagemesh_error(error, method))

        return call

    def _streaming(self, behavior: Any, method: str) -> Any:
        async def call(request: Any, grpc_context: Context) -> AsyncIterator[Any]:
            try:
                self._enter(grpc_context)
                async for response in behavior(_checked(request), grpc_context):
                    yield response
            except Exception as error:  # noqa: BLE001  the boundary: everything becomes a status
                await abort_with(grpc_context, as_stagemesh_error(error, method))

        return call


def as_stagemesh_error(error: Exception, method: str) -> StagemeshError:
    """The error a caller sees for `error`; what is unexpected is logged and becomes INTERNAL without its text."""
    if isinstance(error, grpc.aio.AbortError):
        raise error
    if isinstance(error, StagemeshError):
        return error
    if isinstance(error, grpc.RpcError):
        return from_rpc(error)
    log.error("call failed", method=method, exc_info=error)
    return Internal("INTERNAL", "an unexpected fault in this service; its log has the details")
