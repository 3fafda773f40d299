"""Calls of the gateway's SessionsService."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import grpc

from stagemesh.api.cache.v1 import cache_pb2, preferences_pb2
from stagemesh.api.gateway.v1 import sessions_pb2, sessions_pb2_grpc
from stagemesh.cli.client.connection import Connection
from stagemesh.runtime.errors import from_rpc

PAGE_SIZE = 500

T = TypeVar("T")

Stub = sessions_pb2_grpc.SessionsServiceStub
Method = Callable[[Stub, dict[str, Any]], Awaitable[T]]


def ask(connection: Connection, method: Method[T]) -> T:
    """The result of `method(stub, options)`. Raises CommandError in words."""

    async def call() -> T:
        async with connection.channel() as channel:
            try:
                return await method(Stub(channel), {"timeout": connection.timeout_s, "metadata": connection.metadata})
            except grpc.aio.AioRpcError as error:
                raise connection.explain(error) from None

    return asyncio.run(call())


def all_sessions(connection: Connection, user_id: str) -> list[cache_pb2.SessionSummary]:
    """Of the tenant, or of one user. Raises CommandError."""

    async def pages(stub: Stub, options: dict[str, Any]) -> list[cache_pb2.SessionSummary]:
        found: list[cache_pb2.SessionSummary] = []
        request = sessions_pb2.ListSessionsRequest(user_id=user_id, page_size=PAGE_SIZE)
        while True:
            page = await stub.ListSessions(request, **options)
            found += page.sessions
            if not page.next_page_token:
                return found
            request.page_token = page.next_page_token

    return ask(connection, pages)


def find_session(connection: Connection, session_id: str) -> cache_pb2.Session | None:
    """None where there is no such session. Raises CommandError."""

    async def get(stub: Stub, options: dict[str, Any]) -> cache_pb2.Session | None:
        try:
            return (await stub.GetSession(sessions_pb2.GetSessionRequest(session_id=session_id), **options)).session
        except grpc.aio.AioRpcError as error:
            if from_rpc(error).reason == "SESSION_NOT_FOUND":
                return None
            raise

    return ask(connection, get)


def preferences_of(connection: Connection, user_id: str) -> list[preferences_pb2.Preference]:
    """Raises CommandError."""
    request = sessions_pb2.ListPreferencesRequest(user_id=user_id)
    return list(ask(connection, lambda stub, options: stub.ListPreferences(request, **options)).preferences)
