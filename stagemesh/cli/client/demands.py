"""From the options `--schema`, `--anchors` and `--rules` to what is asked of a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from google.protobuf.json_format import ParseDict, ParseError

from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import quality_pb2
from stagemesh.cli.client.request import parse_json, read_anchors, read_schema, read_text

OF_SET = "@"
"""`--anchors /sku=@products` means the stored set `products`."""


def build_demands(
    text: str, schema: Path | None, anchors: Sequence[str], rules: Sequence[Path]
) -> quality_pb2.ValidateRequest:
    """Raises click.BadParameter for what cannot be read, click.UsageError where nothing is asked."""
    request = quality_pb2.ValidateRequest(text=text, constraint=read_schema(schema) if schema else None)
    for given in anchors:
        request.anchors.extend(_anchors(given))
    for path in rules:
        _read_rules(path, request)
    if not (schema or request.anchors or request.rules or request.text_rules):
        raise click.UsageError("give --schema, --anchors or --rules: nothing is asked of the text")
    return request


def _anchors(given: str) -> Iterator[common_pb2.Anchor]:
    """`/pointer=FILE` with one key a line, `/pointer=@SET`, or a file as `stagemesh generate --anchors` takes."""
    pointer, equals, source = given.partition("=")
    if not equals or (pointer and not pointer.startswith("/")):
        yield from read_anchors(Path(given))
        return
    if source.startswith(OF_SET):
        yield common_pb2.Anchor(pointer=pointer, set=source.removeprefix(OF_SET))
        return
    keys = [line for line in read_text(Path(source), "--anchors").splitlines() if line.strip()]
    if not keys:
        raise click.BadParameter(f"{source} has no keys", param_hint="--anchors")
    yield common_pb2.Anchor(pointer=pointer, keys=keys)


def _read_rules(path: Path, request: quality_pb2.ValidateRequest) -> None:
    """`{"rules": […], "text_rules": […]}`, or the rules alone."""
    given = parse_json(read_text(path, "--rules"), path, "--rules")
    document: Any = {"rules": given} if isinstance(given, list) else given
    if not isinstance(document, dict) or document.keys() - {"rules", "text_rules"}:
        raise click.BadParameter(f'{path} must hold {{"rules": […], "text_rules": […]}}', param_hint="--rules")
    try:
        found = ParseDict(document, quality_pb2.ValidateRequest(), max_recursion_depth=12)
    except ParseError as error:
        raise click.BadParameter(f"{path}: {' '.join(str(error).split())[:200]}", param_hint="--rules") from None
    request.rules.extend(found.rules)
    request.text_rules.extend(found.text_rules)
