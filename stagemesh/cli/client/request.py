"""From options to the request."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.errors import InvalidRequest
from stagemesh.runtime.precision_mode import parse_mode

MAX_FILE_BYTES = 16 * 1024 * 1024


def build_request(
    *,
    prompt: str,
    raw: bool = False,
    system: str = "",
    schema: Path | None = None,
    anchors: Path | None = None,
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


def read_input(source: str) -> str:
    """The text of a file, or of standard input for `-`. Raises click.BadParameter."""
    if source != "-":
        return read_text(Path(source), "FILE")
    try:
        text = sys.stdin.buffer.read(MAX_FILE_BYTES + 1).decode()
    except UnicodeDecodeError as error:
        raise click.BadParameter(f"standard input is not UTF-8: {error}", param_hint="-") from None
    if len(text) > MAX_FILE_BYTES:
        raise click.BadParameter(f"standard input is larger than {MAX_FILE_BYTES >> 20} MiB", param_hint="-")
    return text


def read_schema(path: Path) -> common_pb2.OutputConstraint:
    """The JSON Schema in a file, as a constraint. Raises click.BadParameter when it is not JSON."""
    text = read_text(path, "--schema")
    parse_json(text, path, "--schema")
    return common_pb2.OutputConstraint(json_schema=text)


def read_anchors(path: Path) -> list[common_pb2.Anchor]:
    """Anchors from a file `{"/pointer": ["key", …]}`. Raises click.BadParameter when it has another form."""
    values = parse_json(read_text(path, "--anchors"), path, "--anchors")
    form = f'{path} must hold an object of the form {{"/pointer": ["key", …]}}'
    if not isinstance(values, dict):
        raise click.BadParameter(form, param_hint="--anchors")
    for pointer, keys in values.items():
        strings = isinstance(keys, list) and all(isinstance(key, str) for key in keys)
        if not strings or not (pointer == "" or pointer.startswith("/")):
            raise click.BadParameter(f"{form}; {pointer!r} is wrong", param_hint="--anchors")
    return [common_pb2.Anchor(pointer=pointer, keys=keys) for pointer, keys in values.items()]


def read_text(path: Path, option: str) -> str:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise click.BadParameter(f"{path} is larger than {MAX_FILE_BYTES >> 20} MiB", param_hint=option)
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{path} cannot be read: {error}", param_hint=option) from None


def parse_json(text: str, path: Path, option: str) -> object:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"{path} is not JSON: {error}", param_hint=option) from None
    return value
