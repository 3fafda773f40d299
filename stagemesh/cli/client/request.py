"""From options to the request."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.cli.client.demands import named_rules, read_anchors, read_schema
from stagemesh.runtime.errors import InvalidRequest
from stagemesh.runtime.precision_mode import parse_mode


def build_request(
    *,
    prompt: str,
    raw: bool = False,
    system: str = "",
    schema: Path | None = None,
    anchors: Path | None = None,
    rules: Path | None = None,
    route: str = "",
    session_id: str = "",
    user_id: str = "",
    defer: bool = False,
    resumable: bool = False,
    request_id: str = "",
    knowledge: str = "",
    model: str = "",
    mode: str = "",
    **sampling: Any,
) -> gateway_pb2.InferenceRequest:
    """The request for the options of `stagemesh generate` and `chat`. Raises click.BadParameter."""
    if raw and system:
        raise click.BadParameter("a --raw prompt has no system message", param_hint="--system")
    text = _checked_text(sys.stdin.read() if prompt == "-" else prompt)
    request = gateway_pb2.InferenceRequest(
        request_id=request_id,  # none: the gateway makes one, and stops the request when its caller leaves
        model=model,
        session_id=session_id,
        user_id=user_id,
        sampling=common_pb2.SamplingParams(**sampling),
        constraint=read_schema(schema) if schema else None,
        anchors=read_anchors(anchors) if anchors else (),
        route=route,
        resumable=resumable,
        allow_deferral=defer,
        knowledge=knowledge,
    )
    if rules:
        found = named_rules(rules)
        request.rules.extend(found.rules)
        request.text_rules.extend(found.text_rules)
    if mode:
        request.policy.precision_mode = _mode(mode)
    if raw:
        request.prompt = text
    else:
        request.chat.CopyFrom(chat(text, system))
    return request


def _mode(text: str) -> common_pb2.PrecisionMode.ValueType:
    try:
        return parse_mode(text, "--mode")
    except InvalidRequest as error:
        raise click.BadParameter(error.message, param_hint="--mode") from None


def _checked_text(text: str) -> str:
    """Raises click.BadParameter for bytes that are not UTF-8, which Python smuggles in as surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise click.BadParameter("the prompt is not valid UTF-8", param_hint="PROMPT") from None
    return text


def chat(prompt: str, system: str = "") -> common_pb2.ChatMessages:
    """One user message, after a system message where there is one."""
    before = [common_pb2.ChatMessage(role="system", content=system)] if system else []
    return common_pb2.ChatMessages(messages=[*before, common_pb2.ChatMessage(role="user", content=prompt)])
