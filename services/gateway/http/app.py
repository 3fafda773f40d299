"""The routes."""

from __future__ import annotations

import asyncio

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute

from services.gateway.config import GatewayConfig
from services.gateway.http import models, stored
from services.gateway.http.body import read_object
from services.gateway.http.boundary import Boundary, Json, no_route
from services.gateway.http.caller import check_request_id, read_caller
from services.gateway.http.chat_request import read_chat
from services.gateway.http.completion_request import read_completion
from services.gateway.http.core import Gateway
from services.gateway.http.extras import reply_headers
from services.gateway.http.gate import Gate
from services.gateway.http.generation import Generation
from services.gateway.http.websocket import Events
from services.gateway.tenants import Tenant
from stagemesh.api.common.v1 import common_pb2
from stagemesh.runtime import context

READINESS_TIMEOUT_S = 2.0


def build_app(gateway: Gateway, config: GatewayConfig, gate: Gate) -> Starlette:
    views = Views(gateway, config, gate)
    app = Starlette(
        routes=[
            Route("/v1/chat/completions", Generation(gateway, config, gate, read_chat), methods=["POST"]),
            Route("/v1/completions", Generation(gateway, config, gate, read_completion), methods=["POST"]),
            Route("/v1/hints", views.hint, methods=["POST"]),
            Route("/v1/models", views.list_models, methods=["GET"]),
            Route("/v1/models/{name:path}", views.get_model, methods=["GET"]),
            Route("/v1/requests/{request_id}", views.get_request, methods=["GET"]),
            Route("/v1/requests/{request_id}", views.cancel_request, methods=["DELETE"]),
            WebSocketRoute("/v1/requests/{request_id}/events", Events(gateway, config, gate).follow),
            Route("/healthz", views.healthz, methods=["GET"]),
            Route("/readyz", views.readyz, methods=["GET"]),
            Route("/metrics", views.metrics, methods=["GET"]),
        ],
        middleware=[Middleware(Boundary)],
        exception_handlers={HTTPException: no_route},
    )
    app.router.redirect_slashes = False
    return app


class Views:
    """The routes that generate nothing."""

    def __init__(self, gateway: Gateway, config: GatewayConfig, gate: Gate) -> None:
        self._gateway = gateway
        self._config = config
        self._gate = gate

    async def list_models(self, request: Request) -> Response:
        tenant = await self._authenticate(request)
        adapters = await self._gateway.list_adapters(tenant)
        return Json({"object": "list", "data": models.list_objects(self._gateway.list_models(), adapters)})

    async def get_model(self, request: Request) -> Response:
        tenant = await self._authenticate(request)
        adapters = await self._gateway.list_adapters(tenant)
        return Json(models.find_object(self._gateway.list_models(), adapters, request.path_params["name"]))

    async def hint(self, request: Request) -> Response:
        """The body of a chat request that will come: its prompt is computed ahead."""
        tenant = await self._authenticate(request)
        caller = read_caller(request.headers, self._config.max_timeout_s)
        with self._gate.entered():
            order = read_chat(await read_object(request, self._config.max_request_bytes), caller)
            accepted = await self._gateway.hint(tenant, order.requests[0])
        return Json({"object": "hint", "accepted": accepted}, 202)

    async def get_request(self, request: Request) -> Response:
        tenant = await self._authenticate(request)
        request_id = self._request_id(request)
        wait_s = stored.read_wait_s(request.query_params.get("wait", "0"))
        shape_name = request.query_params.get("object", "chat.completion")
        stored.read_shape(shape_name, with_logprobs=False)
        final = await stored.wait_for_final(self._gateway, tenant, request_id, wait_s)
        if final is None:
            return Json(stored.pending(request_id), 202, {"x-request-id": request_id, "retry-after": "1"})
        shape = stored.read_shape(shape_name, with_logprobs=stored.has_logprobs(final))
        return Json(stored.ended(final, shape), headers=reply_headers([final]))

    async def cancel_request(self, request: Request) -> Response:
        tenant = await self._authenticate(request)
        request_id = self._request_id(request)
        outcome = await self._gateway.cancel(tenant, request_id)
        headers = {"x-request-id": request_id}
        if outcome == common_pb2.OUTCOME_UNSPECIFIED:  # its owner has not answered yet
            return Json(stored.pending(request_id), 202, {**headers, "retry-after": "1"})
        return Json(stored.cancelled(request_id, outcome), headers=headers)

    async def healthz(self, _request: Request) -> Response:
        return Json({"status": "alive"})

    async def readyz(self, _request: Request) -> Response:
        parts = await self._parts_not_ready()
        return Json({"status": "not ready" if parts else "ready", "parts": parts}, 503 if parts else 200)

    async def metrics(self, _request: Request) -> Response:
        return Response(generate_latest(), headers={"content-type": CONTENT_TYPE_LATEST})

    async def _parts_not_ready(self) -> dict[str, str]:
        if self._gate.draining:
            return {"gateway": "going down"}
        try:
            async with asyncio.timeout(READINESS_TIMEOUT_S):
                return await self._gateway.readiness()
        except TimeoutError:
            return {"gateway": f"the check took longer than {READINESS_TIMEOUT_S:g} s"}

    async def _authenticate(self, request: Request) -> Tenant:
        caller = read_caller(request.headers, self._config.max_timeout_s)
        context.request_id.set(caller.request_id)
        tenant = await self._gateway.authenticate(caller.api_key, caller.tenant_header)
        context.tenant_id.set(tenant.tenant_id)
        return tenant

    def _request_id(self, request: Request) -> str:
        request_id = check_request_id(request.path_params["request_id"], "request_id")
        context.request_id.set(request_id)
        return request_id
