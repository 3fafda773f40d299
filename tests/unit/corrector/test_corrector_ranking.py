"""What the rules leave open, ranked by likelihoods that are given here: what is asked, and what follows."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from services.corrector.adapters.in_use import Adapter
from services.corrector.chain import RepairChain
from services.corrector.config import RankingConfig
from services.corrector.content.judge import judge
from services.corrector.data import problem_data, problem_from
from services.corrector.proposals import Findings, Problem
from services.corrector.ranking.ask import ask
from services.corrector.ranking.assignment import Contender, shared_out
from services.corrector.ranking.calibration import NEVER, Calibration, calibration_of
from services.corrector.ranking.decide import SURE, TOLD, decide, rank
from services.corrector.ranking.likelihood import probabilities, prompt_of
from services.corrector.ranking.question import Question, key_of, questions_data, questions_from
from services.corrector.ranking.ranker import Ranker
from services.corrector.repair import problem_of
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.models.store import locate
from stagemesh.models.tokenizer_file import load_tokenizer
from stagemesh.runtime.deadline import Deadline
from stagemesh.runtime.errors import Unavailable
from stagemesh.runtime.mesh_config import MeshConfig
from stagemesh.validation.constraint import Constraint, Kind
from stagemesh.validation.limits import Limits

SOURCE = "We met Anna Keller and Marco Rossi. Anna Keller will hand over the keys; Marco Rossi moves in."
SCHEMA = {
    "type": "object", "required": ["giver", "taker"], "additionalProperties": False,
    "properties": {"giver": {"type": "string"}, "taker": {"type": "string", "title": "New tenant"}},
}  # fmt: skip
ANNA, MARCO = key_of("Anna Keller"), key_of("Marco Rossi")
SURE_FROM = Calibration(confirm=0.9, change=0.95)


def problem(value: Mapping[str, Any], source: str = SOURCE, schema: Mapping[str, Any] = SCHEMA) -> Problem:
    constraint = Constraint(Kind.JSON_SCHEMA, json.dumps(schema))
    text = json.dumps(value, ensure_ascii=False)
    repair = RepairChain(Limits(), judge).repair(text, constraint, (), source)
    return problem_of(text, repair, constraint, (), source)


def questions(value: Mapping[str, Any], **given: Any) -> dict[str, Question]:
    return {question.pointer: question for question in ask(problem(value, **given))}


def test_values_in_doubt_are_asked_with_what_else_the_source_has_of_their_kind() -> None:
    asked = questions({"giver": "Marco Rossi", "taker": "Anna Keller"})
    giver, taker = asked["/giver"], asked["/taker"]
    assert {one.value for one in giver.candidates} == {"Anna Keller", "Marco Rossi"}
    assert giver.candidates[giver.present].value == "Marco Rossi"
    assert (taker.name, taker.title) == ("taker", "New tenant")


def test_a_value_that_the_source_speaks_of_as_expected_is_a_candidate() -> None:
    schema = {"type": "object", "required": ["left", "there"], "additionalProperties": False,
              "properties": {name: {"type": "string", "format": "date"} for name in ("left", "there")}}  # fmt: skip
    source = "The van set off on 2024-03-01 and is expected on 2024-03-09."
    asked = questions({"left": "2024-03-09", "there": "2024-03-01"}, source=source, schema=schema)
    assert {one.value for one in asked["/there"].candidates} == {"2024-03-01", "2024-03-09"}


def test_what_the_source_says_of_an_earlier_matter_is_never_sure() -> None:
    schema = {"type": "object", "required": ["crates"], "properties": {"crates": {"type": "integer"}}}
    asked = questions({"crates": 80}, source="They brought some. The previous delivery had 80 crates.", schema=schema)
    assert [one.is_barred for one in asked["/crates"].candidates] == [True]
    found = decide(rank(list(asked.values()), [{key_of(80): 0.99}]), SURE_FROM)
    assert found.confirmed == ()


def test_chinese_names_are_candidates_without_marks_around_them() -> None:
    schema = {
        "type": "object",
        "required": ["甲", "乙"],
        "properties": {"甲": {"type": "string"}, "乙": {"type": "string"}},
    }
    source = "本协议由李海燕与王思远签署，受托人为上海明达物流有限公司。"
    asked = questions({"甲": "王思远"}, source=source, schema=schema)
    values = {one.value for question in asked.values() for one in question.candidates}
    assert {"王思远", "李海燕", "上海明达物流有限公司"} <= values


def test_what_is_certain_is_not_asked() -> None:
    schema = {"type": "object", "required": ["invoice"], "properties": {"invoice": {"type": "string"}}}
    open_problem = problem({"invoice": "INV-7001"}, source="Invoice: INV-7001.", schema=schema)
    assert not open_problem.is_open
    assert ask(open_problem) == ()


def test_questions_leave_the_sandbox_as_they_are() -> None:
    given = problem({"giver": "Marco Rossi", "taker": "Anna Keller"})
    asked = ask(given)
    assert questions_from(json.loads(json.dumps(questions_data(asked)))) == asked
    assert ask(problem_from(json.loads(json.dumps(problem_data(given))), SCHEMA)) == asked


def test_a_value_that_stands_once_is_one_fields() -> None:
    likely = {"a": 0.6, "b": 0.3}
    alone = [Contender(probabilities=likely), Contender(probabilities={"a": 0.9, "b": 0.05})]
    first, second = shared_out(alone, {"a": 1, "b": 1})
    assert first["b"] > 0.5 > first["a"]
    assert second["a"] > 0.8
    twice, _ = shared_out(alone, {"a": 2, "b": 2})
    assert twice["a"] == pytest.approx(0.6)


def test_too_many_fields_are_looked_at_alone() -> None:
    likely = {str(number): 0.1 for number in range(6)}
    assert shared_out([Contender(probabilities=likely)] * 9, dict.fromkeys(likely, 1)) == [likely] * 9


def decided(value: Mapping[str, Any], *likely: Mapping[str, float]) -> Findings:
    return decide(rank(ask(problem(value)), likely), SURE_FROM)


def test_a_present_value_is_confirmed_from_the_margin_on() -> None:
    value = {"giver": "Anna Keller", "taker": "Marco Rossi"}
    assert set(decided(value, {ANNA: 0.97, MARCO: 0.01}, {ANNA: 0.02, MARCO: 0.96}).confirmed) == {"/giver", "/taker"}
    assert decided(value, {ANNA: 0.5, MARCO: 0.1}, {ANNA: 0.1, MARCO: 0.5}) == Findings()


def test_another_value_takes_its_place_from_the_margin_on_and_is_told_below() -> None:
    value = {"giver": "Marco Rossi", "taker": "Anna Keller"}
    sure = decided(value, {ANNA: 0.97, MARCO: 0.01}, {ANNA: 0.02, MARCO: 0.96})
    assert {(one.pointer, one.value, one.confidence) for one in sure.proposals} == {
        ("/giver", "Anna Keller", SURE), ("/taker", "Marco Rossi", SURE),
    }  # fmt: skip
    told = decided(value, {ANNA: 0.7, MARCO: 0.1}, {ANNA: 0.1, MARCO: 0.7})
    assert {one.confidence for one in told.proposals} == {TOLD}
    assert told.confirmed == ()


def test_without_a_calibration_nothing_is_sure() -> None:
    assert calibration_of({}) == calibration_of({"ranking": {"confirm": "high", "change": 0.1}}) == Calibration()
    assert Calibration().confirm == NEVER
    assert calibration_of({"ranking": {"confirm": 0.9, "change": 0.99}}) == Calibration(confirm=0.9, change=0.99)


@cache
def _tokenizer() -> Any:
    mesh = MeshConfig()
    return load_tokenizer(locate(mesh, mesh.default_model)).build()


def encode(text: str) -> list[int]:
    ids: list[int] = _tokenizer().encode(text, add_special_tokens=False).ids
    return ids


def test_values_are_asked_up_to_where_they_differ() -> None:
    asked = ask(problem({"giver": "Marco Rossi", "taker": "Anna Keller"}))
    prompt = prompt_of(SOURCE, asked, encode)
    assert prompt.token_ids == encode(SOURCE + "\n\n---\n")
    values = {_tokenizer().decode(one.token_ids[one.num_asking :]) for one in prompt.continuations if one.field == 0}
    assert {value[:4] for value in values} == {" Ann", " Mar"}
    logprobs = [[0.0] * one.num_asking + [math.log(0.25)] for one in prompt.continuations]
    assert probabilities(prompt, len(asked), logprobs)[0] == pytest.approx({ANNA: 0.25, MARCO: 0.25})


class FakeEngines:
    """Finds each candidate as likely as `likely` says by its first token."""

    def __init__(self, fails: bool = False) -> None:
        self.requests: list[engine_pb2.ScoreRequest] = []
        self._fails = fails

    async def score(self, request: engine_pb2.ScoreRequest, deadline: Deadline) -> engine_pb2.ScoreResponse:
        self.requests.append(request)
        if self._fails:
            raise Unavailable("ENGINE_UNAVAILABLE", "no engine answers")
        answer = engine_pb2.ScoreResponse()
        for one in request.continuations:
            text = _tokenizer().decode(one.token_ids)
            is_right = ("giver" in text) == ("Ann" in text)
            values = [0.0] * (len(one.token_ids) - 1) + [math.log(0.98 if is_right else 0.01)]
            answer.scores.add(token_logprobs=values, sum=sum(values))
        answer.usage.forwards = 3
        return answer


class FakeRenderers:
    async def find(self, identity: common_pb2.ModelIdentity) -> FakeRenderers:
        return self

    def token_ids(self, text: str) -> list[int]:
        return encode(text)


def ranker(engines: FakeEngines, adapter: Adapter | None, **config: Any) -> Ranker:
    async def asks(given: Problem) -> tuple[Question, ...]:
        return ask(given)

    return Ranker(asks, FakeRenderers(), engines, RankingConfig(**config), adapter)  # type: ignore[arg-type]


ADAPTER = Adapter(name="c", generation=3, revision="ab", calibration={"ranking": {"confirm": 0.9, "change": 0.95}})
OPEN = {"giver": "Anna Keller", "taker": "Marco Rossi"}


async def test_an_engine_is_asked_once_with_the_adapter_and_pages_of_its_own() -> None:
    engines = FakeEngines()
    found = await ranker(engines, ADAPTER).propose(problem(OPEN), Deadline.after(5))
    assert set(found.confirmed) == {"/giver", "/taker"}
    assert found.forwards == 3
    [request] = engines.requests
    assert (request.model.adapter, request.model.adapter_generation, request.model.adapter_revision) == ("c", 3, "ab")
    assert len(request.cache_salt) == 16


async def test_the_adapter_that_a_problem_names_goes_before_the_configured_one() -> None:
    engines, given = FakeEngines(), problem(OPEN)
    other = Adapter(name="other", generation=1, revision="")
    asked = replace(given, asked=replace(given.asked, adapter=other))
    found = await ranker(engines, ADAPTER).propose(asked, Deadline.after(5))
    assert engines.requests[0].model.adapter == "other"
    assert found.confirmed == (), "it has no calibration"


async def test_without_an_adapter_no_engine_is_asked() -> None:
    engines = FakeEngines()
    assert await ranker(engines, None).propose(problem(OPEN), Deadline.after(5)) == Findings()
    assert engines.requests == []


async def test_a_source_that_is_too_long_is_told_so() -> None:
    with pytest.raises(Unavailable, match="tokens is not ranked"):
        await ranker(FakeEngines(), ADAPTER, max_source_tokens=3).propose(problem(OPEN), Deadline.after(5))
