"""DeferredService: a tenant's own deferred requests and dead letters, and those of all tenants for an operator."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from redis.exceptions import RedisError

from services.gateway.config import GatewayConfig
from services.gateway.core import Gateway
from services.gateway.deferred_admin import DeferredAdmin, DeferredEntry
from services.gateway.metadata import deadline_of, has_mesh_token, metadata_of, tenant_of
from stagemesh.api.gateway.v1 import deferred_pb2, deferred_pb2_grpc, gateway_pb2
from stagemesh.runtime.errors import Forbidden, InvalidRequest, Unavailable
from stagemesh.runtime.interceptors import Context

DEFAULT_ENTRIES, MAX_ENTRIES = 100, 10_000
CALL_S = 60.0
"""A list of thousands is looked up one by one."""
STATES = {
    "waiting": deferred_pb2.DEFERRED_STATE_WAITING,
    "running": deferred_pb2.DEFERRED_STATE_RUNNING,
    "dead": deferred_pb2.DEFERRED_STATE_DEAD,
}

T = TypeVar("T")


class DeferredServicer(deferred_pb2_grpc.DeferredServiceServicer):
    """Raises NotFound, Precondition, Exhausted, Unavailable (the ledger is away), and the refusals of a wrong key."""

    def __init__(self, gateway: Gateway, admin: DeferredAdmin, config: GatewayConfig, mesh_token: str) -> None:
        self._gateway, self._admin, self._config, self._mesh_token = gateway, admin, config, mesh_token

    async def ListDeferred(
        self, request: deferred_pb2.ListDeferredRequest, context: Context
    ) -> deferred_pb2.ListDeferredResponse:
        tenant_id = await self._reach(request.tenant_id, context)
        limit = min(request.page_size or DEFAULT_ENTRIES, MAX_ENTRIES)
        look = self._admin.dead if request.dead else self._admin.waiting
        entries = await self._call(look(limit, tenant_id), context)
        return deferred_pb2.ListDeferredResponse(entries=map(_message, entries))

    async def GetDeferred(
        self, request: deferred_pb2.GetDeferredRequest, context: Context
    ) -> deferred_pb2.GetDeferredResponse:
        entry = await self._find(request.request_id, request.tenant_id, context)
        asked = await self._call(self._admin.request_of(entry), context)
        response = deferred_pb2.GetDeferredResponse(entry=_message(entry))
        if asked is not None:
            _without_texts(asked, response)
        return response

    async def RetryDeferred(
        self, request: deferred_pb2.RetryDeferredRequest, context: Context
    ) -> deferred_pb2.RetryDeferredResponse:
        if request.request_id:
            entries = [await self._find(request.request_id, request.tenant_id, context)]
        else:
            tenant_id = await self._reach(request.tenant_id, context)
            entries = await self._call(self._admin.dead(0, tenant_id), context)
        for entry in entries:
            await self._call(self._admin.retry(entry), context)
        return deferred_pb2.RetryDeferredResponse(request_ids=[entry.request_id for entry in entries])

    async def DropDeferred(
        self, request: deferred_pb2.DropDeferredRequest, context: Context
    ) -> deferred_pb2.DropDeferredResponse:
        entry = await self._find(request.request_id, request.tenant_id, context)
        await self._call(self._admin.drop(entry), context)
        return deferred_pb2.DropDeferredResponse(entry=_message(entry))

    async def _find(self, request_id: str, tenant_id: str, context: Context) -> DeferredEntry:
        reach = await self._reach(tenant_id, context)
        if not request_id:
            raise InvalidRequest("INVALID_REQUEST_ID", "give the request's ID", field="request_id")
        return await self._call(self._admin.find(request_id.lower(), reach), context)

    async def _reach(self, asked_tenant_id: str, context: Context) -> str:
        """The tenant whose requests the caller may see; empty for an operator who named none."""
        if has_mesh_token(metadata_of(context), self._mesh_token):
            return asked_tenant_id
        tenant = await tenant_of(self._gateway, context)
        if asked_tenant_id not in ("", tenant.tenant_id):
            raise Forbidden("TENANT_MISMATCH", "the key belongs to another tenant", field="tenant_id")
        return tenant.tenant_id

    async def _call(self, awaitable: Awaitable[T], context: Context) -> T:
        try:
            async with asyncio.timeout(deadline_of(self._config, context).budget_s(CALL_S)):
                return await awaitable
        except (RedisError, OSError, TimeoutError) as error:
            raise Unavailable("LEDGER_UNAVAILABLE", "the ledger is away", retry_after_ms=1_000) from error


def _message(entry: DeferredEntry) -> deferred_pb2.DeferredEntry:
    message = deferred_pb2.DeferredEntry(
        tenant_id=entry.tenant_id,
        request_id=entry.request_id,
        state=STATES[entry.state],
        priority=entry.priority,
        reason=entry.reason,
        message=entry.message,
    )
    if entry.deferred_at_s:
        message.deferred_at.FromMicroseconds(int(entry.deferred_at_s * 1e6))
    if entry.expires_at_s:
        message.expires_at.FromMicroseconds(int(entry.expires_at_s * 1e6))
    return message


def _without_texts(asked: gateway_pb2.InferenceRequest, response: deferred_pb2.GetDeferredResponse) -> None:
    """Fill in what was asked: its texts only as how long they are."""
    response.message_chars.extend(len(message.content) for message in asked.chat.messages)
    response.prompt_chars, response.source_chars = len(asked.prompt), len(asked.source)
    for message in asked.chat.messages:
        message.content = ""
    if asked.WhichOneof("input") == "prompt":
        asked.prompt = ""
    asked.source = ""
    response.request.CopyFrom(asked)
