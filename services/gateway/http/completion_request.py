"""The body of /v1/completions."""

from __future__ import annotations

from typing import NoReturn

from services.gateway.http import inert
from services.gateway.http.caller import Caller
from services.gateway.http.common_request import read_common, read_streaming
from services.gateway.http.fields import Fields, json_type
from services.gateway.http.order import Order
from services.gateway.http.shape_completion import CompletionShape
from stagemesh.api.gateway.v1 import gateway_pb2

MAX_PROMPTS = 16


def read_completion(body: dict[str, object], caller: Caller) -> Order:
    """Raises InvalidRequest with the parameter at fault."""
    fields = Fields(body)
    request = read_common(fields, caller)
    prompts = _prompts(fields)
    logprobs = fields.integer("logprobs")
    if logprobs is not None:
        request.sampling.logprobs = logprobs
    best_of = fields.integer("best_of", least=1)
    if best_of not in (None, request.sampling.n):
        fields.refuse("best_of", "is not supported here; use n", "UNSUPPORTED_PARAMETER")
    stream, include_usage = read_streaming(fields)
    inert.refuse_effects(fields, inert.COMPLETION)
    fields.done()
    if len(prompts) > 1:
        _check_several(fields, request)
    return Order(
        requests=tuple(_with_prompt(request, prompt) for prompt in prompts),
        shape=CompletionShape(with_logprobs=logprobs is not None),
        stream=stream,
        include_usage=include_usage,
    )


def _with_prompt(request: gateway_pb2.InferenceRequest, prompt: str) -> gateway_pb2.InferenceRequest:
    copy = gateway_pb2.InferenceRequest()
    copy.CopyFrom(request)
    copy.prompt = prompt
    return copy


def _prompts(fields: Fields) -> list[str]:
    prompt = fields.take("prompt")
    if isinstance(prompt, str):
        prompts = [prompt]
    elif prompt is None:
        fields.refuse("prompt", "is missing", "MISSING_PARAMETER")
    elif not isinstance(prompt, list):
        fields.refuse("prompt", f"must be a string or an array of strings, not {json_type(prompt)}", "INVALID_TYPE")
    else:
        prompts = [item if isinstance(item, str) else _refuse_item(fields, item) for item in prompt]
    if not prompts or not all(prompts):
        fields.refuse("prompt", "must not be empty")
    if len(prompts) > MAX_PROMPTS:
        fields.refuse("prompt", f"takes up to {MAX_PROMPTS} prompts in one request")
    return prompts


def _refuse_item(fields: Fields, item: object) -> NoReturn:
    if isinstance(item, int | list):
        fields.refuse("prompt", "as token IDs is not supported here; send text", "UNSUPPORTED_VALUE")
    fields.refuse("prompt", f"must hold strings, not {json_type(item)}", "INVALID_TYPE")


def _check_several(fields: Fields, request: gateway_pb2.InferenceRequest) -> None:
    """Several prompts are several requests, so what belongs to one request cannot come along."""
    for name in ("request_id", "allow_deferral", "resumable"):
        if getattr(request, name):
            fields.refuse(name, "needs a request with a single prompt")
