"""A validated request: what the pipeline works on."""

from __future__ import annotations

import hashlib
import math
import re
import secrets
import uuid
from dataclasses import dataclass

import uuid_utils

from services.gateway.adapters import split_name
from services.gateway.config import GatewayConfig, RouteConfig
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.errors import Exhausted, InvalidRequest, NotFound
from stagemesh.runtime.knowledge import NO_BASE, check_base_name
from stagemesh.runtime.mesh_config import MeshConfig, SamplingDefaults
from stagemesh.runtime.outbox import MAX_PRIORITY

ROLES = frozenset({"system", "user", "assistant"})
MAX_STOP = 16
MAX_STOP_BYTES = 256
MAX_LOGPROBS = 20
MAX_ID_BYTES = 256
MAX_ANCHORS = 64
MAX_ANCHOR_KEYS = 10_000
MAX_RULES = 64
MAX_SEED = 2**63 - 1

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

_RANGES = {
    # field: (least, most, least is excluded)
    "temperature": (0.0, 2.0, False),
    "top_p": (0.0, 1.0, True),
    "min_p": (0.0, 1.0, False),
    "presence_penalty": (-2.0, 2.0, False),
    "frequency_penalty": (-2.0, 2.0, False),
    "repetition_penalty": (0.0, 10.0, True),
}


@dataclass(frozen=True, kw_only=True)
class Job:
    """One accepted request with everything that its caller left open filled in."""

    tenant_id: str
    request: gateway_pb2.InferenceRequest
    """With request_id and seed set: running it again gives the same answer."""
    payload_hash: bytes
    """Of what the caller sent; tells a repeat from another request under the same ID."""
    model: str
    adapter: str
    """What computes beside the model; empty for nothing."""
    route_name: str
    route: RouteConfig
    explicit_id: bool
    """The caller chose the request ID, and so may come back with it."""
    mode_limited: bool = False
    """It asked for `precise` too often in a row and runs in standard."""

    @property
    def request_id(self) -> str:
        return self.request.request_id

    @property
    def num_choices(self) -> int:
        return self.request.sampling.n or 1

    @property
    def has_constraint(self) -> bool:
        return self.request.constraint.WhichOneof("kind") is not None

    @property
    def needs_validation(self) -> bool:
        return self.has_constraint or has_demands(self.request)


def has_demands(request: gateway_pb2.InferenceRequest) -> bool:
    """Whether anything is asked of the text beside a constraint."""
    return bool(request.anchors or request.rules or request.text_rules)


def make_job(tenant_id: str, request: gateway_pb2.InferenceRequest, mesh: MeshConfig, config: GatewayConfig) -> Job:
    """Check `request` and fill in what it leaves open.

    Raises InvalidRequest, NotFound (unknown model) or Exhausted (too large), each with the field at fault.
    """
    size = request.ByteSize()
    if size > config.max_request_bytes:
        raise Exhausted(
            "REQUEST_TOO_LARGE",
            f"the request has {size:,} bytes, more than the {config.max_request_bytes:,} allowed "
            "(gateway.max_request_bytes)",
        )
    _check_identifiers(request)
    _check_input(request)
    _check_knowledge(request)
    _check_sampling(request.sampling, config)
    _check_anchors(request)
    _check_deferral(request, config)
    filled = gateway_pb2.InferenceRequest()
    filled.CopyFrom(request)
    filled.request_id = request.request_id.lower()
    payload_hash = hashlib.sha256(filled.SerializeToString(deterministic=True)).digest()
    filled.request_id = filled.request_id or str(uuid_utils.uuid7())
    model, adapter = _model(request.model, mesh)
    _fill_sampling(filled.sampling, mesh.models[model].sampling)
    route_name = request.route or config.default_route
    return Job(
        tenant_id=tenant_id,
        request=filled,
        payload_hash=payload_hash,
        model=model,
        adapter=adapter,
        route_name=route_name,
        route=_route(route_name, config),
        explicit_id=bool(request.request_id),
    )


def resume_job(
    tenant_id: str,
    request: gateway_pb2.InferenceRequest,
    payload_hash: bytes,
    mesh: MeshConfig,
    config: GatewayConfig,
) -> Job:
    """The job of a request that was accepted before (deferred, or taken over from another gateway)."""
    route_name = request.route or config.default_route
    model, adapter = _model(request.model, mesh)
    return Job(
        tenant_id=tenant_id,
        request=request,
        payload_hash=payload_hash,
        model=model,
        adapter=adapter,
        route_name=route_name,
        route=_route(route_name, config),
        explicit_id=True,
    )


def _fill_sampling(sampling: common_pb2.SamplingParams, defaults: SamplingDefaults) -> None:
    given = {field.name for field, _ in sampling.ListFields()}
    for name, value in defaults.model_dump(exclude_none=True).items():
        if name not in given:
            setattr(sampling, name, value)
    if "seed" not in given:
        sampling.seed = secrets.randbelow(MAX_SEED)


def _model(name: str, mesh: MeshConfig) -> tuple[str, str]:
    """The model and the adapter that a name means."""
    base, adapter = split_name(name, mesh)
    model = mesh.resolve_model(base)
    if model is None or model not in mesh.serve:
        known = ", ".join(sorted({*mesh.serve, *(alias for alias, to in mesh.aliases.items() if to in mesh.serve)}))
        raise NotFound(
            "MODEL_NOT_FOUND", f"the model {name[:100]!r} is not served here; there is {known}", field="model"
        )
    return model, adapter


def _route(name: str, config: GatewayConfig) -> RouteConfig:
    route = config.routes.get(name)
    if route is None:
        known = ", ".join(sorted(config.routes))
        raise InvalidRequest(
            "UNKNOWN_ROUTE", f"there is no route class {name[:100]!r}; use one of {known}", field="route"
        )
    return route


def _check_identifiers(request: gateway_pb2.InferenceRequest) -> None:
    if request.request_id:
        try:
            valid = str(uuid.UUID(request.request_id)) == request.request_id.lower()
        except ValueError:
            valid = False
        if not valid:
            raise InvalidRequest(
                "INVALID_REQUEST_ID", "request_id must be a UUID such as uuid7() makes, or empty", field="request_id"
            )
    for field in ("session_id", "user_id"):
        value: str = getattr(request, field)
        if len(value.encode()) > MAX_ID_BYTES or _CONTROL.search(value):
            raise InvalidRequest(
                "INVALID_IDENTIFIER",
                f"{field} takes up to {MAX_ID_BYTES} bytes without control characters",
                field=field,
            )


def _check_input(request: gateway_pb2.InferenceRequest) -> None:
    kind = request.WhichOneof("input")
    if kind is None:
        raise InvalidRequest("EMPTY_INPUT", "give `chat` messages or a `prompt`", field="chat")
    if kind == "prompt":
        if not request.prompt:
            raise InvalidRequest("EMPTY_INPUT", "the prompt is empty", field="prompt")
        if request.session_id:
            raise InvalidRequest(
                "SESSION_NEEDS_CHAT", "a session continues `chat` messages, not a `prompt`", field="session_id"
            )
        return
    if not request.chat.messages:
        raise InvalidRequest("EMPTY_INPUT", "give at least one message", field="chat.messages")
    for index, message in enumerate(request.chat.messages):
        field = f"chat.messages[{index}]"
        if message.role not in ROLES:
            raise InvalidRequest(
                "INVALID_ROLE",
                f"the role {message.role[:40]!r} is not one of {', '.join(sorted(ROLES))}",
                field=f"{field}.role",
            )
        if not message.content and message.role == "user":
            raise InvalidRequest("EMPTY_INPUT", "the message has no content", field=f"{field}.content")


def _check_knowledge(request: gateway_pb2.InferenceRequest) -> None:
    if not request.knowledge or request.knowledge == NO_BASE:
        return
    check_base_name(request.knowledge)
    if request.WhichOneof("input") == "prompt":
        raise InvalidRequest(
            "KNOWLEDGE_NEEDS_CHAT", "passages are added to `chat` messages, not to a `prompt`", field="knowledge"
        )


def _check_sampling(sampling: common_pb2.SamplingParams, config: GatewayConfig) -> None:
    given = {field.name: value for field, value in sampling.ListFields()}
    for name, (least, most, excluded) in _RANGES.items():
        if name not in given:
            continue
        value = given[name]
        if not math.isfinite(value) or not least <= value <= most or (excluded and value == least):
            _refuse(
                name,
                f"must be above {least:g} and at most {most:g}" if excluded else f"must be from {least:g} to {most:g}",
            )
    if sampling.HasField("max_tokens") and sampling.max_tokens == 0:
        _refuse("max_tokens", "must be at least 1")
    if (
        sampling.HasField("min_tokens")
        and sampling.HasField("max_tokens")
        and sampling.min_tokens > sampling.max_tokens
    ):
        _refuse("min_tokens", "must not exceed max_tokens")
    if sampling.HasField("logprobs") and sampling.logprobs > MAX_LOGPROBS:
        _refuse("logprobs", f"must be at most {MAX_LOGPROBS}")
    if sampling.n > config.max_choices:
        _refuse("n", f"must be at most {config.max_choices} (gateway.max_choices)")
    if sampling.HasField("seed") and sampling.seed > MAX_SEED:
        _refuse("seed", "must be below 2**63")
    if len(sampling.stop) > MAX_STOP or any(not 0 < len(stop.encode()) <= MAX_STOP_BYTES for stop in sampling.stop):
        _refuse("stop", f"takes up to {MAX_STOP} strings of 1 to {MAX_STOP_BYTES} bytes")
    if len(sampling.logit_bias) > 300 or any(
        not math.isfinite(bias) or abs(bias) > 100 for bias in sampling.logit_bias.values()
    ):
        _refuse("logit_bias", "takes up to 300 tokens with a bias from -100 to 100")


def _refuse(name: str, rule: str) -> None:
    raise InvalidRequest("INVALID_SAMPLING", f"{name} {rule}", field=f"sampling.{name}")


def _check_deferral(request: gateway_pb2.InferenceRequest, config: GatewayConfig) -> None:
    if abs(request.deferral_priority) > MAX_PRIORITY:
        raise InvalidRequest(
            "PRIORITY_OUT_OF_RANGE", f"deferral_priority must lie within ±{MAX_PRIORITY}", field="deferral_priority"
        )
    if request.deferral_ttl_s > config.deferred_ttl_s:
        raise InvalidRequest(
            "INVALID_VALUE",
            f"deferral_ttl_s must be at most {config.deferred_ttl_s} (gateway.deferred_ttl_s)",
            field="deferral_ttl_s",
        )


def _check_anchors(request: gateway_pb2.InferenceRequest) -> None:
    if len(request.anchors) > MAX_ANCHORS or sum(len(anchor.keys) for anchor in request.anchors) > MAX_ANCHOR_KEYS:
        raise InvalidRequest(
            "TOO_MANY_ANCHORS", f"up to {MAX_ANCHORS} anchors with {MAX_ANCHOR_KEYS:,} keys in all", field="anchors"
        )
    for index, anchor in enumerate(request.anchors):
        if not anchor.keys and not anchor.set:
            message = "an anchor needs at least one key, or the name of a stored set"
            raise InvalidRequest("EMPTY_ANCHOR", message, field=f"anchors[{index}].keys")
    if len(request.rules) + len(request.text_rules) > MAX_RULES:
        raise InvalidRequest("TOO_MANY_RULES", f"up to {MAX_RULES} rules in all", field="rules")
