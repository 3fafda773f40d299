"""The body of /v1/chat/completions."""

from __future__ import annotations

from services.gateway.http import inert
from services.gateway.http.caller import Caller
from services.gateway.http.common_request import read_common, read_streaming
from services.gateway.http.fields import Fields
from services.gateway.http.messages import read_messages
from services.gateway.http.order import Order
from services.gateway.http.shape_chat import ChatShape


def read_chat(body: dict[str, object], caller: Caller) -> Order:
    """Raises InvalidRequest with the parameter at fault."""
    fields = Fields(body)
    request = read_common(fields, caller)
    request.chat.CopyFrom(read_messages(fields))
    logprobs = _logprobs(fields)
    if logprobs is not None:
        request.sampling.logprobs = logprobs
    stream, include_usage = read_streaming(fields)
    inert.refuse_effects(fields, inert.CHAT)
    fields.done()
    return Order(
        requests=(request,),
        shape=ChatShape(with_logprobs=logprobs is not None),
        stream=stream,
        include_usage=include_usage,
    )


def _logprobs(fields: Fields) -> int | None:
    """How many alternatives to report at each position; None for no log-probabilities."""
    wanted = fields.flag("logprobs") or False
    num_top = fields.integer("top_logprobs")
    if num_top and not wanted:
        fields.refuse("top_logprobs", "is only allowed with logprobs: true")
    return (num_top or 0) if wanted else None
