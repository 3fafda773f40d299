"""What the bodies of both APIs have in common."""

from __future__ import annotations

from services.gateway.http.caller import Caller
from services.gateway.http.constraint import read_anchors, read_constraint
from services.gateway.http.fields import Fields
from services.gateway.http.rules import read_rules, read_text_rules
from services.gateway.http.sampling import read_sampling
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.api.tokenizer.v1 import tokenizer_pb2
from stagemesh.runtime.outbox import MAX_PRIORITY

_OVERFLOW = {
    "reject": tokenizer_pb2.OVERFLOW_POLICY_REJECT,
    "keep_recent": tokenizer_pb2.OVERFLOW_POLICY_KEEP_RECENT,
}


def read_common(fields: Fields, caller: Caller) -> gateway_pb2.InferenceRequest:
    """A request without its input and its log-probabilities. Raises InvalidRequest."""
    request = gateway_pb2.InferenceRequest(
        request_id=caller.request_id,
        model=_model(fields),
        session_id=_session_id(fields, caller),
        user_id=_user_id(fields),
        sampling=read_sampling(fields),
        constraint=read_constraint(fields),
        anchors=read_anchors(fields),
        rules=read_rules(fields),
        text_rules=read_text_rules(fields),
        route=fields.text("route") or "",
        knowledge=fields.text("knowledge") or "",
        source=fields.text("source") or "",
        min_confidence=_confidence(fields),
        resumable=fields.flag("resumable") or False,
        allow_deferral=fields.flag("allow_deferral") or False,
        deferral_priority=fields.integer("deferral_priority", least=-MAX_PRIORITY, most=MAX_PRIORITY) or 0,
        deferral_ttl_s=fields.integer("deferral_ttl_s", least=1) or 0,
    )
    if caller.mode:
        request.policy.precision_mode = caller.mode
    overflow = fields.text("overflow")
    if overflow is not None:
        if overflow not in _OVERFLOW:
            fields.refuse("overflow", f"must be one of {', '.join(_OVERFLOW)}")
        request.overflow = _OVERFLOW[overflow]
    return request


def read_streaming(fields: Fields) -> tuple[bool, bool]:
    """`(stream, include_usage)`. Raises InvalidRequest."""
    stream = fields.flag("stream") or False
    options = fields.child("stream_options")
    if options is None:
        return stream, False
    if not stream:
        fields.refuse("stream_options", "is only allowed with stream")
    include_usage = options.flag("include_usage") or False
    if options.flag("include_obfuscation"):
        options.refuse("include_obfuscation", "is not supported here", "UNSUPPORTED_PARAMETER")
    options.done()
    return stream, include_usage


def _confidence(fields: Fields) -> float:
    confidence = fields.number("min_confidence") or 0.0
    if not 0 <= confidence <= 1:
        fields.refuse("min_confidence", "must be between 0 and 1")
    return confidence


def _model(fields: Fields) -> str:
    model = fields.text("model")
    if model == "":
        fields.refuse("model", "must not be empty; leave it out for the default model")
    return model or ""


def _session_id(fields: Fields, caller: Caller) -> str:
    in_body = fields.text("session_id")
    if in_body and caller.session_id and in_body != caller.session_id:
        fields.refuse("session_id", "differs from the header x-session-id; send one of them")
    return in_body or caller.session_id


def _user_id(fields: Fields) -> str:
    user, successor = fields.text("user"), fields.text("safety_identifier")
    return user or successor or ""
