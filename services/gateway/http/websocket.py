"""`/v1/requests/{id}/events` as a WebSocket: the events of a running, deferred or ended request, one JSON text each."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import orjson
from starlette.websockets import WebSocket, WebSocketDisconnect

from services.gateway.config import GatewayConfig
from services.gateway.http.boundary import failure_from
from services.gateway.http.caller import check_request_id, read_caller
from services.gateway.http.core import Gateway
from services.gateway.http.gate import Gate
from services.gateway.http.shape import JsonObject
from services.gateway.http.stored import ended, read_shape
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime import context
from stagemesh.runtime.errors import InvalidRequest

POLICY_VIOLATION = 1008
"""Close code after an error; the last message says which."""


class Events:
    """Takes the key from `authorization` or `x-api-key`, and `?after=` as the last seq that the caller has."""

    def __init__(self, gateway: Gateway, config: GatewayConfig, gate: Gate) -> None:
        self._gateway, self._config, self._gate = gateway, config, gate

    async def follow(self, socket: WebSocket) -> None:
        for variable in context.METADATA_KEYS.values():
            variable.set("")
        await socket.accept()
        try:
            with self._gate.entered():
                if await self._until_gone(socket):
                    await socket.close()
        except WebSocketDisconnect:
            return  # nobody reads any more; the request goes on
        except Exception as error:  # noqa: BLE001  it becomes the last message, as elsewhere a reply
            await _say(socket, failure_from(error, "websocket").body)
            await socket.close(POLICY_VIOLATION)

    async def _until_gone(self, socket: WebSocket) -> bool:
        """Follow to the end; False when the caller left before. What it says meanwhile is read and thrown away."""
        following = asyncio.ensure_future(self._follow(socket))
        leaving = asyncio.ensure_future(_gone(socket))
        try:
            await asyncio.wait({following, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not following.done():
                return False
            await following
            return True
        finally:
            for task in (following, leaving):
                task.cancel()
            await asyncio.gather(following, leaving, return_exceptions=True)

    async def _follow(self, socket: WebSocket) -> None:
        caller = read_caller(socket.headers, self._config.max_timeout_s)
        tenant = await self._gateway.authenticate(caller.api_key, caller.tenant_header)
        request_id = check_request_id(socket.path_params["request_id"], "request_id")
        after = socket.query_params.get("after", "0")
        if not after.isdecimal() or len(after) > 18:
            raise InvalidRequest("INVALID_VALUE", "after must be the number of an event", field="after")
        async with aclosing(self._gateway.watch(tenant, request_id, int(after))) as events:
            async for event in events:
                await _say(socket, as_json(event))


def as_json(event: gateway_pb2.Event) -> JsonObject:
    """`{seq, type, …}`; a final event holds the answer as `/v1/requests/{id}` gives it."""
    head: JsonObject = {"seq": event.seq, "type": event.WhichOneof("kind")}
    match head["type"]:
        case "queued":
            queued = event.queued
            wait_ms = queued.estimated_wait_ms
            return {**head, "position": queued.position, "estimated_wait_ms": wait_ms, "deferred": queued.deferred}
        case "delta":
            return {**head, "index": event.delta.index, "text": event.delta.text}
        case "stage":
            return {
                **head,
                "stage": common_pb2.Stage.Name(event.stage.stage).removeprefix("STAGE_").lower(),
                "status": common_pb2.StageStatus.Name(event.stage.status).removeprefix("STAGE_STATUS_").lower(),
                "reason": event.stage.reason or None,
            }
        case _:
            return {**head, "request": ended(event.final, read_shape("chat.completion", with_logprobs=False))}


async def _gone(socket: WebSocket) -> None:
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass


async def _say(socket: WebSocket, message: JsonObject) -> None:
    await socket.send_text(orjson.dumps(message).decode())
