"""The operator's calls of the validator's AnchorSetService: they act for a tenant, by the mesh's own token."""

from __future__ import annotations

import csv
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import click

from stagemesh.api.validator.v1 import anchor_sets_pb2, anchor_sets_pb2_grpc
from stagemesh.cli.client.service_channel import Metadata, service_channel

BATCH_BYTES = 500_000
MAX_BATCH = 10_000
TIMEOUT_S = 60.0
LOAD_TIMEOUT_S = 3_600.0

Stub = anchor_sets_pb2_grpc.AnchorSetServiceStub
OnProgress = Callable[[int], None]


@asynccontextmanager
async def anchor_set_service(state: Path | None, config: Path | None) -> AsyncIterator[tuple[Stub, Metadata]]:
    """A stub and the metadata of its calls. Raises CommandError in words for every failed call."""
    async with service_channel("validator", state, config) as (channel, metadata):
        yield Stub(channel), metadata


async def load(
    stub: Stub,
    metadata: Metadata,
    begin: anchor_sets_pb2.LoadBegin,
    keys: Iterator[str],
    on_progress: OnProgress,
) -> anchor_sets_pb2.AnchorSet:
    found = anchor_sets_pb2.AnchorSet()
    async for answer in stub.Load(_requests(begin, keys), timeout=LOAD_TIMEOUT_S, metadata=metadata):
        if answer.WhichOneof("kind") == "set":
            found = answer.set
        else:
            on_progress(answer.progress.keys)
    return found


def read_keys(path: Path, column: str) -> Iterator[str]:
    """The keys in a file: of .csv and .jsonl one column, of others one a line. Raises click.BadParameter."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            match path.suffix.lower():
                case ".csv":
                    yield from _of_csv(csv.DictReader(file), column, path)
                case ".jsonl" | ".ndjson":
                    for number, line in enumerate(file, start=1):
                        if line.strip():
                            yield _of_json(line, column, f"{path}, line {number}")
                case _:
                    if column:
                        raise click.BadParameter(f"{path} is neither .csv nor .jsonl", param_hint="--column")
                    yield from (key for line in file if (key := line.rstrip("\r\n")).strip())
    except UnicodeDecodeError:
        raise click.BadParameter(f"{path} cannot be read: it is no text in UTF-8", param_hint="FILE") from None
    except (OSError, csv.Error) as error:
        raise click.BadParameter(f"{path} cannot be read: {error}", param_hint="FILE") from None


def _of_csv(rows: csv.DictReader[str], column: str, path: Path) -> Iterator[str]:
    names = list(rows.fieldnames or ())
    name = column or (names[0] if len(names) == 1 else "")
    if name not in names:
        raise click.BadParameter(f"{path} has the columns {', '.join(names)}; name one", param_hint="--column")
    for row in rows:
        if key := (row[name] or ""):
            yield key


def _of_json(line: str, column: str, place: str) -> str:
    try:
        value = json.loads(line)
    except ValueError:
        raise click.BadParameter(f"{place} is not JSON", param_hint="FILE") from None
    key = value.get(column) if isinstance(value, dict) else value
    if isinstance(key, int) and not isinstance(key, bool):
        return str(key)
    if not isinstance(key, str):
        raise click.BadParameter(f"{place} has no text under {column!r}", param_hint="--column")
    return key


async def _requests(
    begin: anchor_sets_pb2.LoadBegin, keys: Iterator[str]
) -> AsyncIterator[anchor_sets_pb2.LoadRequest]:
    yield anchor_sets_pb2.LoadRequest(begin=begin)
    batch: list[str] = []
    size = 0
    for key in keys:
        batch.append(key)
        size += 4 * len(key)
        if len(batch) == MAX_BATCH or size > BATCH_BYTES:
            yield anchor_sets_pb2.LoadRequest(keys=anchor_sets_pb2.Keys(keys=batch))
            batch, size = [], 0
    if batch:
        yield anchor_sets_pb2.LoadRequest(keys=anchor_sets_pb2.Keys(keys=batch))
