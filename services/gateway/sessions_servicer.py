"""SessionsService: a tenant's own sessions and preferences, handed on to the cache service under its name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import grpc

from services.gateway.cache_problem import cache_problem
from services.gateway.config import GatewayConfig
from services.gateway.core import Gateway
from services.gateway.corrections import CorrectionPublisher
from services.gateway.metadata import deadline_of, tenant_of
from services.gateway.peers import Peers
from stagemesh.api.cache.v1 import cache_pb2, preferences_pb2
from stagemesh.api.gateway.v1 import sessions_pb2, sessions_pb2_grpc
from stagemesh.runtime.channel import call_metadata
from stagemesh.runtime.errors import InvalidRequest
from stagemesh.runtime.interceptors import Context

CALL_S, FORGET_S = 8.0, 60.0
"""For one call to the cache service; erasing a user goes through all that is kept of it."""
SHARE = 0.9
"""Of the caller's time, for that call."""

T = TypeVar("T")


class SessionsServicer(sessions_pb2_grpc.SessionsServiceServicer):
    """Raises what the cache service says: InvalidRequest, NotFound, Unavailable; and the refusals of a wrong key."""

    def __init__(self, gateway: Gateway, peers: Peers, config: GatewayConfig, corrections: CorrectionPublisher) -> None:
        self._gateway, self._corrections = gateway, corrections
        self._cache, self._preferences, self._engines = peers.cache, peers.preferences, peers.engines
        self._config = config

    async def ListSessions(
        self, request: sessions_pb2.ListSessionsRequest, context: Context
    ) -> sessions_pb2.ListSessionsResponse:
        asked = cache_pb2.ListSessionsRequest(
            tenant_id=await self._tenant(context),
            user_id=request.user_id,
            page_size=request.page_size,
            page_token=request.page_token,
        )
        answer = await self._call(self._cache.ListSessions, asked, context)
        return sessions_pb2.ListSessionsResponse(sessions=answer.sessions, next_page_token=answer.next_page_token)

    async def GetSession(
        self, request: sessions_pb2.GetSessionRequest, context: Context
    ) -> sessions_pb2.GetSessionResponse:
        asked = cache_pb2.GetSessionRequest(tenant_id=await self._tenant(context), session_id=request.session_id)
        answer = await self._call(self._cache.GetSession, asked, context)
        return sessions_pb2.GetSessionResponse(session=answer.session)

    async def Forget(self, request: sessions_pb2.ForgetRequest, context: Context) -> sessions_pb2.ForgetResponse:
        tenant_id = await self._tenant(context)
        match request.WhichOneof("what"):
            case "session_id":
                asked = cache_pb2.ForgetRequest(tenant_id=tenant_id, session_id=request.session_id)
            case "user_id":
                asked = cache_pb2.ForgetRequest(tenant_id=tenant_id, user_id=request.user_id)
            case _:
                raise InvalidRequest("MISSING_ID", "name the session or the user to forget", field="what")
        await self._corrections.erase(tenant_id, user_id=request.user_id, session_id=request.session_id)
        await self._engines.forget(tenant_id)
        answer = await self._call(self._cache.Forget, asked, context, FORGET_S)
        await self._engines.forget(tenant_id)  # what a turn under way has kept meanwhile
        await self._gateway.forget_requests(tenant_id, user_id=request.user_id, session_id=request.session_id)
        return sessions_pb2.ForgetResponse(sessions=answer.sessions)

    async def ListPreferences(
        self, request: sessions_pb2.ListPreferencesRequest, context: Context
    ) -> sessions_pb2.ListPreferencesResponse:
        asked = preferences_pb2.ListPreferencesRequest(tenant_id=await self._tenant(context), user_id=request.user_id)
        answer = await self._call(self._preferences.ListPreferences, asked, context)
        return sessions_pb2.ListPreferencesResponse(preferences=answer.preferences)

    async def SetPreference(
        self, request: sessions_pb2.SetPreferenceRequest, context: Context
    ) -> sessions_pb2.SetPreferenceResponse:
        asked = preferences_pb2.SetPreferenceRequest(
            tenant_id=await self._tenant(context),
            user_id=request.user_id,
            preference_id=request.preference_id,
            text=request.text,
        )
        answer = await self._call(self._preferences.SetPreference, asked, context)
        return sessions_pb2.SetPreferenceResponse(preference=answer.preference)

    async def DeletePreference(
        self, request: sessions_pb2.DeletePreferenceRequest, context: Context
    ) -> sessions_pb2.DeletePreferenceResponse:
        asked = preferences_pb2.DeletePreferenceRequest(
            tenant_id=await self._tenant(context), user_id=request.user_id, preference_id=request.preference_id
        )
        answer = await self._call(self._preferences.DeletePreference, asked, context)
        return sessions_pb2.DeletePreferenceResponse(preferences=answer.preferences)

    async def _tenant(self, context: Context) -> str:
        return (await tenant_of(self._gateway, context)).tenant_id

    async def _call(
        self, method: Callable[..., Awaitable[T]], request: object, context: Context, at_most_s: float = CALL_S
    ) -> T:
        """Once: the cache service has budgets of its own, and says by itself when it cannot. One that says nothing is
        given up early enough for the caller to hear of it."""
        timeout_s = min(at_most_s, deadline_of(self._config, context).budget_s() * SHARE)
        try:
            return await method(request, timeout=timeout_s, metadata=call_metadata())
        except grpc.RpcError as error:
            raise cache_problem(error) from error
