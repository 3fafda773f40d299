"""The operator's calls of the validator's RuleSetService: they act for a tenant, by the mesh's own token."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict

from stagemesh.api.validator.v1 import rule_sets_pb2, rule_sets_pb2_grpc
from stagemesh.cli.client.service_channel import Metadata, service_channel

TIMEOUT_S = 30.0

Stub = rule_sets_pb2_grpc.RuleSetServiceStub


@asynccontextmanager
async def rule_set_service(state: Path | None, config: Path | None) -> AsyncIterator[tuple[Stub, Metadata]]:
    """A stub and the metadata of its calls. Raises CommandError in words for every failed call."""
    async with service_channel("validator", state, config) as (channel, metadata):
        yield Stub(channel), metadata


def as_data(found: rule_sets_pb2.RuleSet) -> dict[str, Any]:
    """Without its name and time the form of a file of rules."""
    rules = [MessageToDict(rule, preserving_proto_field_name=True) for rule in found.rules]
    text_rules = [MessageToDict(rule, preserving_proto_field_name=True) for rule in found.text_rules]
    updated_s = found.updated_at.ToNanoseconds() / 1e9
    return {"name": found.name, "updated_unix_s": updated_s, "rules": rules, "text_rules": text_rules}


def rule_lines(found: rule_sets_pb2.RuleSet) -> list[str]:
    data = as_data(found)
    return [f"  {json.dumps(rule, ensure_ascii=False)}" for rule in (*data["rules"], *data["text_rules"])]
