"""The validator over a real socket: verdicts, refusals, and hostile input that costs nobody anything."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from quality_support import refusal, serving

from services.validator.config import ValidatorConfig
from services.validator.service import ValidatorService
from stagemesh.api.common.v1.common_pb2 import Anchor, ChoiceList, OutputConstraint
from stagemesh.api.validator.v1 import validator_pb2, validator_pb2_grpc

Stub = validator_pb2_grpc.ValidatorServiceStub
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "city": {"type": "string"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


@contextlib.asynccontextmanager
async def validator(**config: Any) -> AsyncIterator[Stub]:
    settings = ValidatorConfig(**{"check_timeout_ms": 20_000.0, "num_workers": 1, **config})
    async with serving(ValidatorService(settings)) as channel:
        yield Stub(channel)


@pytest.fixture
async def stub() -> AsyncIterator[Stub]:
    async with validator() as stub:
        yield stub


def schema(document: Any) -> OutputConstraint:
    return OutputConstraint(json_schema=document if isinstance(document, str) else json.dumps(document))


async def validate(stub: Stub, text: str, constraint: OutputConstraint | None = None, *anchors: Anchor) -> Any:
    request = validator_pb2.ValidateRequest(text=text, constraint=constraint, anchors=anchors)
    return (await stub.Validate(request, timeout=60)).verdict


async def check(stub: Stub, constraint: OutputConstraint, *anchors: Anchor) -> None:
    await stub.Check(validator_pb2.CheckRequest(constraint=constraint, anchors=anchors), timeout=60)


async def test_a_good_text_is_valid_and_its_value_comes_back_compact(stub: Stub) -> None:
    verdict = await validate(stub, '{ "name": "林",\n "age": 30 }', schema(PERSON))
    assert verdict.valid
    assert verdict.value == '{"name":"林","age":30}'
    assert not verdict.issues


async def test_all_that_is_wrong_is_listed_with_place_and_suggestion(stub: Stub) -> None:
    anchor = Anchor(pointer="/city", keys=["北京", "上海"])
    verdict = await validate(stub, '{"age":"30","city":"上 海","x":1}', schema(PERSON), anchor)
    assert not verdict.valid
    found = {(issue.pointer, issue.rule, issue.suggestion) for issue in verdict.issues}
    assert found == {
        ("", "required", ""),
        ("/age", "type", "30"),
        ("", "additionalProperties", ""),
        ("/city", "anchor.near", '"上海"'),
    }
    assert {issue.severity for issue in verdict.issues} == {validator_pb2.SEVERITY_ERROR}


async def test_without_constraint_and_anchors_any_text_is_valid(stub: Stub) -> None:
    assert (await validate(stub, "anything {")).valid


@pytest.mark.parametrize(
    ("constraint", "good", "bad"),
    [
        (OutputConstraint(json_object=True), "{}", "[]"),
        (OutputConstraint(regex="[0-9]+"), "12", "x"),
        (OutputConstraint(grammar='start: "a" "b"'), "ab", "ba"),
        (OutputConstraint(choice=ChoiceList(values=["yes", "no"])), "no", "maybe"),
    ],
)
async def test_every_kind_of_constraint_is_checked(
    stub: Stub, constraint: OutputConstraint, good: str, bad: str
) -> None:
    assert (await validate(stub, good, constraint)).valid
    assert not (await validate(stub, bad, constraint)).valid


@pytest.mark.parametrize(
    ("constraint", "reason", "field"),
    [
        (schema("{"), "INVALID_SCHEMA", "constraint.json_schema"),
        (schema({"type": "objekt"}), "INVALID_SCHEMA", "constraint.json_schema#/type"),
        (schema({"$ref": "https://example.com/s"}), "INVALID_SCHEMA", "constraint.json_schema#/$ref"),
        (OutputConstraint(regex="(a"), "INVALID_REGEX", "constraint.regex"),
        (OutputConstraint(grammar="start: x"), "INVALID_GRAMMAR", "constraint.grammar"),
        (OutputConstraint(choice=ChoiceList()), "INVALID_CHOICE", "constraint.choice"),
        (OutputConstraint(json_object=False), "INVALID_CONSTRAINT", "constraint.json_object"),
    ],
)
async def test_an_unusable_constraint_is_a_typed_error_in_both_calls(
    stub: Stub, constraint: OutputConstraint, reason: str, field: str
) -> None:
    for call in (check(stub, constraint), validate(stub, "{}", constraint)):
        async with refusal() as refused:
            await call
        assert refused.error.code is grpc.StatusCode.INVALID_ARGUMENT
        assert (refused.error.reason, refused.error.field) == (reason, field)


async def test_a_bad_anchor_pointer_is_a_typed_error(stub: Stub) -> None:
    async with refusal() as refused:
        await check(stub, schema(PERSON), Anchor(pointer="city", keys=["a"]))
    assert (refused.error.reason, refused.error.field) == ("INVALID_ANCHOR", "anchors[0].pointer")


def doubling(depth: int) -> dict[str, Any]:
    """A small schema with 2 ** depth ways to the same complaint."""
    twice = {f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(depth)}
    return {"$ref": "#/$defs/a0", "$defs": {**twice, f"a{depth}": {"type": "string"}}}


async def test_a_schema_whose_complaints_explode_still_gets_a_verdict() -> None:
    async with validator(check_timeout_ms=1_500.0) as stub:
        verdict = await validate(stub, "1", schema(doubling(24)))
        assert not verdict.valid
        assert [issue.rule for issue in verdict.issues] == ["type"]
        assert (await validate(stub, "{}", OutputConstraint(json_object=True))).valid


CHAIN = {**{str(i): {"$ref": f"#/$defs/{i + 1}"} for i in range(6_000)}, "6000": True}

HOSTILE = {
    "recursive root": (schema({"$ref": "#"}), "{}"),
    "recursive pair": (schema({"$defs": {"a": {"not": {"$ref": "#"}}}, "not": {"$ref": "#/$defs/a"}}), "{}"),
    "long chain": (schema({"$ref": "#/$defs/0", "$defs": CHAIN}), "1"),
    "catastrophic pattern": (schema({"pattern": "(a+)+$"}), json.dumps("a" * 50_000 + "b")),
    "back-reference": (schema({"items": {"pattern": r"(a*)*\1$"}}), json.dumps(["a" * 50 + "b"] * 1_000)),
    "repetitions": (OutputConstraint(regex="((a{1000}){1000}){1000}"), "a" * 5_000),
    "many states": (OutputConstraint(regex="(a|b)*a(a|b){500}c"), "ab" * 5_000),
    "right recursion": (OutputConstraint(grammar='start: "a" start | '), "a" * 10_000),
    "ambiguity": (OutputConstraint(grammar='start: start start | "a"'), "a" * 2_000),
    "deep text": (OutputConstraint(json_object=True), "[" * 900_000),
    "quotes": (OutputConstraint(json_object=True), '"\\' * 450_000),
    "many numbers": (schema({"items": {"multipleOf": 1e-300}}), json.dumps([1e300] * 50_000)),
    "big integers": (schema({"minItems": 10**300, "minimum": 10**900}), "[]"),
    "many keys": (schema({"propertyNames": {"pattern": "^x"}}), json.dumps({str(i): i for i in range(50_000)})),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_input_ends_in_a_verdict_or_a_typed_error_and_harms_nobody(name: str) -> None:
    constraint, text = HOSTILE[name]
    async with validator(check_timeout_ms=1_000.0) as stub:
        (outcome,) = await asyncio.gather(validate(stub, text, constraint), return_exceptions=True)
        if isinstance(outcome, grpc.aio.AioRpcError):
            assert outcome.code() is grpc.StatusCode.INVALID_ARGUMENT
        else:
            assert outcome.valid or outcome.issues
        assert (await validate(stub, '{"name":"a","age":1}', schema(PERSON))).valid


async def test_what_exceeds_its_time_is_refused_and_others_go_on() -> None:
    async with validator(check_timeout_ms=300.0) as stub:
        async with refusal() as refused:
            await validate(stub, "a" * 12_000, OutputConstraint(grammar='start: start start | "a"'))
        assert (refused.error.code, refused.error.reason) == (
            grpc.StatusCode.INVALID_ARGUMENT,
            "CONSTRAINT_TOO_COMPLEX",
        )
    async with validator() as stub:
        assert (await validate(stub, "{}", OutputConstraint(json_object=True))).valid


async def test_a_text_over_the_limit_is_refused(stub: Stub) -> None:
    async with refusal() as refused:
        await validate(stub, "x" * 1_100_000, OutputConstraint(json_object=True))
    assert (refused.error.reason, refused.error.field) == ("TEXT_TOO_LARGE", "text")


async def test_more_calls_than_may_wait_are_turned_away_with_a_hint() -> None:
    async with validator(max_waiting=1) as stub:
        slow = [validate(stub, f'"{i}' + "a" * 50_000 + '"', schema({"pattern": f"{i}a+$"})) for i in range(30)]
        answers = await asyncio.gather(*slow, return_exceptions=True)
    refused = [answer for answer in answers if isinstance(answer, grpc.aio.AioRpcError)]
    assert refused
    assert {error.code() for error in refused} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert any(not isinstance(answer, BaseException) and answer.valid for answer in answers)


async def test_a_caller_that_gives_up_costs_the_next_one_nothing(stub: Stub) -> None:
    constraint = schema({"items": {"pattern": r"(a*)*\1$"}})
    request = validator_pb2.ValidateRequest(text=json.dumps(["a" * 50 + "b"] * 2_000), constraint=constraint)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.Validate(request, timeout=0.001)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert (await validate(stub, '["b"]', schema({"items": {"type": "string"}}))).valid
