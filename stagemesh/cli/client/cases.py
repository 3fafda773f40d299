"""Many cases, one a line of JSON: corrected a few at a time, printed in their order."""

from __future__ import annotations

import asyncio
import difflib
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import quality_pb2
from stagemesh.cli.client.connection import Connection
from stagemesh.cli.client.correction import Correct, correcting, num_local_workers
from stagemesh.cli.exits import CommandError, Exit
from stagemesh.cli.verdict_view import Outcome, as_json
from stagemesh.runtime.errors import StagemeshError, Unavailable

MAX_LINE_BYTES = 8 << 20
REMOTE_AT_ONCE = 8
MAX_NAMES = 100
"""Members of a case that are compared with the names that it may have."""
_NAMES = ("id", "text", "schema", "anchors", "source")


class BadCase(Exception):
    """A line is no case; the message says why."""


def lines_of(where: str) -> Iterator[bytes]:
    """The lines of a file, or of standard input for `-`. Raises CommandError."""
    if where == "-":
        yield from _bounded(sys.stdin.buffer)
        return
    try:
        with Path(where).open("rb") as stream:
            yield from _bounded(stream)
    except OSError as error:
        raise CommandError(f"{where} cannot be read: {error.strerror or error}", Exit.USAGE) from None


def _bounded(stream: Any) -> Iterator[bytes]:
    """Lines, of which too long ones are cut so that they fail alone."""
    while line := stream.readline(MAX_LINE_BYTES + 1):
        rest = line
        while len(rest) > MAX_LINE_BYTES and not rest.endswith(b"\n"):
            rest = stream.readline(MAX_LINE_BYTES + 1)
        if line.strip():
            yield line


def correct_lines(lines: Iterable[bytes], connection: Connection, min_confidence: float, *, local: bool) -> Exit:
    """Print one result a line; OK if all texts are valid. Raises CommandError where no mesh answers."""
    try:
        return asyncio.run(_correct_lines(iter(lines), connection, min_confidence, local=local))
    except ExceptionGroup as group:
        raise group.exceptions[0] from None


async def _correct_lines(lines: Iterator[bytes], connection: Connection, min_confidence: float, *, local: bool) -> Exit:
    """A result is printed as soon as it and those before it are there, also while the next line is waited for."""
    at_once = num_local_workers() if local else REMOTE_AT_ONCE
    running: asyncio.Queue[asyncio.Task[Outcome] | None] = asyncio.Queue(at_once * 2)
    async with correcting(connection, num_workers=at_once, local=local) as correct, asyncio.TaskGroup() as group:
        printing = group.create_task(_print_all(running))
        while (line := await asyncio.to_thread(next, lines, None)) is not None:
            await running.put(group.create_task(_outcome(line, correct, min_confidence)))
        await running.put(None)
    return Exit.OK if printing.result() else Exit.FAILED


async def _print_all(running: asyncio.Queue[asyncio.Task[Outcome] | None]) -> bool:
    """Print the results in order until None comes; gives whether all are valid."""
    all_valid = True
    while (task := await running.get()) is not None:
        all_valid &= _print(await task)
    return all_valid


def _print(outcome: Outcome) -> bool:
    sys.stdout.write(json.dumps(as_json(outcome), ensure_ascii=False) + "\n")
    sys.stdout.flush()
    return outcome.valid


async def _outcome(line: bytes, correct: Correct, min_confidence: float) -> Outcome:
    case: Any = None
    try:
        case = _parsed(line)
        outcome = await correct(request_of(case, min_confidence))
    except BadCase as problem:
        return _failed(case, "case", str(problem))
    except Unavailable as error:
        if error.reason == "UNAVAILABLE":
            raise CommandError(
                "no gateway answers; start a mesh with `stagemesh up`, or use --local", Exit.UNREACHABLE
            ) from None
        return _failed(case, error.reason, error.message)
    except StagemeshError as error:
        return _failed(case, error.reason, error.message)
    outcome.more["id"] = case.get("id")
    if misspelt := list(_misspelt(case)):
        return replace(outcome, errors=[*misspelt, *outcome.errors])
    return outcome


def _misspelt(case: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Warnings about members whose names are nearly those that a case may have: `sauce`."""
    for name in list(case)[:MAX_NAMES]:
        near = difflib.get_close_matches(name.lower(), _NAMES, n=1, cutoff=0.7) if name not in _NAMES else []
        if near and (near[0] not in case or case[near[0]] is None):
            message = f"the member {name!r} is not used; {near[0]!r} may be meant"
            yield {
                "pointer": "",
                "rule": "case.member",
                "message": message,
                "severity": "warning",
                "suggestion": None,
            }


def _parsed(line: bytes) -> Any:
    if len(line) > MAX_LINE_BYTES:
        raise BadCase(f"the line is longer than {MAX_LINE_BYTES >> 20} MiB")
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadCase(f"the line is no JSON: {error}") from None


def request_of(case: Any, min_confidence: float) -> quality_pb2.CorrectRequest:
    """What a case asks for; members that it does not know are its own. Raises BadCase."""
    if not isinstance(case, dict):
        raise BadCase("the line is no JSON object")
    text, schema, source = case.get("text"), case.get("schema"), case.get("source")
    if not isinstance(text, str) or not isinstance(source, str | None):
        raise BadCase("text must be a string, and source too if there is one")
    if not isinstance(schema, dict | bool):
        raise BadCase("schema must be a JSON Schema: an object, true or false")
    try:
        request = quality_pb2.CorrectRequest(
            text=text,
            constraint=common_pb2.OutputConstraint(json_schema=json.dumps(schema, ensure_ascii=False)),
            anchors=list(_anchors(case.get("anchors"))),
            source=source or "",
            min_confidence=min_confidence,
        )
    except ValueError as error:  # half of a surrogate pair has no UTF-8
        raise BadCase(f"the line holds what is no text: {error}") from None
    return request


def _anchors(given: Any) -> Iterator[common_pb2.Anchor]:
    if given is None:
        return
    if not isinstance(given, dict):
        raise BadCase("anchors must be an object of JSON Pointers and arrays of keys")
    for pointer, keys in given.items():
        if not isinstance(keys, list) or not all(isinstance(key, str | int | float) for key in keys):
            raise BadCase(f"the anchor {pointer!r} must have an array of keys")
        yield common_pb2.Anchor(
            pointer=pointer, keys=[key if isinstance(key, str) else json.dumps(key) for key in keys]
        )


def _failed(case: Any, rule: str, message: str) -> Outcome:
    """The result for a line that could not be looked at."""
    known = case if isinstance(case, dict) else {}
    text = known.get("text")
    error = {"pointer": "", "rule": rule, "message": message, "severity": "error", "suggestion": None}
    return Outcome(
        valid=False,
        certain=False,
        text=text if isinstance(text, str) else "",
        errors=[error],
        more={"id": known.get("id")},
    )
