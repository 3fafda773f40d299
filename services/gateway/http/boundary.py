"""Around every route: errors become OpenAI error objects, and every request is counted."""

from __future__ import annotations

import asyncio
import time

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.gateway.http import metrics, rate_headers
from services.gateway.http.disconnect import ClientGoneError
from services.gateway.http.failures import Failure, failure_of
from services.gateway.http.outcome import AnswerFailedError, DeferredError
from stagemesh.runtime import context
from stagemesh.runtime.errors import InvalidRequest, NotFound, Unavailable
from stagemesh.runtime.interceptors import as_stagemesh_error

CLIENT_GONE = 499
METHOD_NOT_ALLOWED = 405


class Json(Response):
    """A JSON body."""

    media_type = "application/json"

    def render(self, content: object) -> bytes:
        return orjson.dumps(content)


def failure_from(error: Exception, where: str) -> Failure:
    """The reply for any error; what is unexpected is logged and becomes a 500 without its text."""
    if isinstance(error, AnswerFailedError | DeferredError):
        return error.failure()
    return failure_of(as_stagemesh_error(error, where))


def stopped() -> Unavailable:
    """What callers are told whose requests outlast the server."""
    return Unavailable("GATEWAY_STOPPED", "this gateway has stopped; send it again", retry_after_ms=1_000)


def failure_response(failure: Failure) -> Response:
    headers = dict(failure.headers)
    if request_id := context.request_id.get():
        headers.setdefault("x-request-id", request_id)
    return Json(failure.body, failure.status, headers)


async def no_route(request: Request, error: Exception) -> Response:
    """Starlette's 404 and 405 in the shape of the others."""
    assert isinstance(error, HTTPException)
    if error.status_code == METHOD_NOT_ALLOWED:
        failure = failure_of(InvalidRequest("METHOD_NOT_ALLOWED", f"{request.method} is not possible here"))
        failure.headers.update(error.headers or {})
    else:
        failure = failure_of(NotFound("UNKNOWN_URL", f"there is nothing at {request.url.path[:200]}"))
    return failure_response(failure)


class Boundary:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # a WebSocket tells of its errors itself
            await self._app(scope, receive, send)
            return
        started_s, status = time.monotonic(), 0
        for variable in context.METADATA_KEYS.values():
            variable.set("")  # a pipelined request inherits the context of the one before it

        async def noting_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                rate_headers.add_to(scope, message)
            await send(message)

        try:
            await self._app(scope, receive, noting_send)
        except ClientGoneError:
            status = CLIENT_GONE
        except asyncio.CancelledError:  # only a stop of the server cancels a request's task, and the task ends here
            if not status:
                await failure_response(failure_of(stopped()))(scope, receive, noting_send)
        except Exception as error:
            if status:
                raise  # the reply has begun: closing the connection is all that is left
            await failure_response(failure_from(error, scope["path"]))(scope, receive, noting_send)
        finally:
            metrics.observe(scope, status or CLIENT_GONE, time.monotonic() - started_s)
