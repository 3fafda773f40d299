"""From the options `--schema`, `--anchors` and `--rules` to what is asked of a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from google.protobuf.message import Message

from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import quality_pb2
from stagemesh.cli.client.files import parse_json, read_text
from stagemesh.cli.client.rules_file import OF_SET
from stagemesh.runtime.errors import InvalidRequest
from stagemesh.validation.json_form import read_message

M = TypeVar("M", bound=Message)


def build_demands(
    text: str, schema: Path | None, anchors: Sequence[str], rules: Sequence[Path]
) -> quality_pb2.ValidateRequest:
    """Raises click.BadParameter for what cannot be read, click.UsageError where nothing is asked."""
    request = quality_pb2.ValidateRequest(text=text, constraint=read_schema(schema) if schema else None)
    for given in anchors:
        request.anchors.extend(_anchors(given))
    for path in rules:
        request.MergeFrom(named_rules(path))
    if not (schema or request.anchors or request.rules or request.text_rules):
        raise click.UsageError("give --schema, --anchors or --rules: nothing is asked of the text")
    return request


def read_schema(path: Path) -> common_pb2.OutputConstraint:
    """The JSON Schema in a file, as a constraint. Raises click.BadParameter when it is not JSON."""
    text = read_text(path, "--schema")
    parse_json(text, path, "--schema")
    return common_pb2.OutputConstraint(json_schema=text)


def read_anchors(path: Path) -> list[common_pb2.Anchor]:
    """Anchors from a file `{"/pointer": ["key", …]}` or `{"/pointer": {"set": "name"}}`.

    Raises click.BadParameter when it has another form.
    """
    values = parse_json(read_text(path, "--anchors"), path, "--anchors")
    if not isinstance(values, dict):
        raise _wrong_form(path)
    return [_anchor(path, pointer, given) for pointer, given in values.items()]


def named_rules(path: Path) -> quality_pb2.ValidateRequest:
    """`@NAME` for stored rules, else a file for `read_rules`."""
    if str(path).startswith(OF_SET):
        return quality_pb2.ValidateRequest(rules=[common_pb2.Rule(set=str(path).removeprefix(OF_SET))])
    return read_rules(path)


def read_rules(path: Path, option: str = "--rules") -> quality_pb2.ValidateRequest:
    """The rules in a file `{"rules": […], "text_rules": […]}`, or of the first sort alone, in a message of their own.

    Raises click.BadParameter that names `option`.
    """
    given = parse_json(read_text(path, option), path, option)
    document: Any = {"rules": given} if isinstance(given, list) else given
    if not isinstance(document, dict) or document.keys() - {"rules", "text_rules"}:
        raise click.BadParameter(f'{path} must hold {{"rules": […], "text_rules": […]}}', param_hint=option)
    request = quality_pb2.ValidateRequest()
    try:
        request.rules.extend(_read_each(document, "rules", common_pb2.Rule))
        request.text_rules.extend(_read_each(document, "text_rules", common_pb2.TextRules))
    except InvalidRequest as error:
        raise click.BadParameter(f"{path}: {error.message}", param_hint=option) from None
    return request


def _read_each(document: dict[str, Any], name: str, kind: type[M]) -> list[M]:
    """Raises InvalidRequest."""
    given = document.get(name) or []
    if not isinstance(given, list):
        raise InvalidRequest("INVALID_TYPE", f"{name} must be an array of objects", field=name)
    return [read_message(item, kind(), f"{name}[{index}]") for index, item in enumerate(given)]


def _anchors(given: str) -> Iterator[common_pb2.Anchor]:
    """`/pointer=FILE` with one key a line, `/pointer=@SET`, or a file for `read_anchors`; a member's name may stand for
    its pointer: `sku`, `buyer.id`, `items[].sku`."""
    name, equals, source = given.partition("=")
    if not equals or Path(given).is_file():
        yield from read_anchors(Path(given))
        return
    pointer = name if not name or name.startswith("/") else "/" + name.replace("[]", ".*").replace(".", "/")
    if source.startswith(OF_SET):
        yield common_pb2.Anchor(pointer=pointer, set=source.removeprefix(OF_SET))
        return
    keys = [line for line in read_text(Path(source), "--anchors").splitlines() if line.strip()]
    if not keys:
        raise click.BadParameter(f"{source} has no keys", param_hint="--anchors")
    yield common_pb2.Anchor(pointer=pointer, keys=keys)


def _anchor(path: Path, pointer: str, given: object) -> common_pb2.Anchor:
    form: dict[str, Any] = given if isinstance(given, dict) else {"keys": given}
    keys, name, ignore_case = form.get("keys", []), form.get("set", ""), form.get("ignore_case", False)
    strings = isinstance(keys, list) and all(isinstance(key, str) for key in keys)
    known = form.keys() <= {"keys", "set", "ignore_case"} and isinstance(name, str) and isinstance(ignore_case, bool)
    if not strings or not known or not (pointer == "" or pointer.startswith("/")):
        raise _wrong_form(path, f"; {pointer!r} is wrong")
    return common_pb2.Anchor(pointer=pointer, keys=keys, set=name, ignore_case=ignore_case)


def _wrong_form(path: Path, what: str = "") -> click.BadParameter:
    form = f'{path} must hold an object of the form {{"/pointer": ["key", …]}}'
    return click.BadParameter(form + what, param_hint="--anchors")
