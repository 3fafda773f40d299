from __future__ import annotations

import json

import jsonschema_rs
import numpy as np
import pytest
from tokenizers import Tokenizer

from services.engine.config import ConstraintConfig
from services.engine.constraint import GrammarConstraint
from services.engine.constraint_compiler import ConstraintCompiler
from stagemesh.api.common.v1.common_pb2 import ChoiceList, OutputConstraint
from stagemesh.models.store import ModelFiles
from stagemesh.models.tokenizer_file import TokenizerFile, load_tokenizer
from stagemesh.runtime.errors import InvalidRequest

EOS = 2
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def tokenizer_file(default_model_files: ModelFiles) -> TokenizerFile:
    return load_tokenizer(default_model_files)


@pytest.fixture(scope="module")
def tokenizer(tokenizer_file: TokenizerFile) -> Tokenizer:
    return tokenizer_file.build()


@pytest.fixture(scope="module")
def compiler(tokenizer_file: TokenizerFile) -> ConstraintCompiler:
    return ConstraintCompiler(tokenizer_file, 49_152, ConstraintConfig())


def feed(constraint: GrammarConstraint, tokenizer: Tokenizer, text: str) -> None:
    for token in tokenizer.encode(text).ids:
        assert constraint.allowed()[token], f"{tokenizer.decode([token])!r} is not allowed"
        constraint.accept(token)


@pytest.mark.parametrize(
    ("constraint", "text"),
    [
        (OutputConstraint(json_schema=json.dumps(SCHEMA)), '{"name":"Ann","age":42}'),
        (OutputConstraint(json_object=True), '{"a":[1,{"b":null}]}'),
        (OutputConstraint(regex=r"[a-z]{3}-\d{2}"), "abc-42"),
        (OutputConstraint(regex=r"^[a-z]{3}$"), "abc"),
        (OutputConstraint(grammar='start: "a" "b"+ "c"'), "abbbc"),
        (OutputConstraint(grammar='root ::= "a" many "c"\nmany ::= "b"+'), "abbbc"),
        (OutputConstraint(choice=ChoiceList(values=["yes", "no", '"quoted"\n'])), '"quoted"\n'),
    ],
    ids=["schema", "object", "regex", "anchored-regex", "grammar", "gbnf", "choice"],
)
def test_a_fitting_text_is_allowed_and_completes(
    compiler: ConstraintCompiler, tokenizer: Tokenizer, constraint: OutputConstraint, text: str
) -> None:
    state = compiler.compile(constraint, 500)
    feed(state, tokenizer, text)
    assert state.is_complete()


def test_one_of_thousands_of_choices_completes(compiler: ConstraintCompiler, tokenizer: Tokenizer) -> None:
    values = [f"article {number} of the list" for number in range(5_000)]
    state = compiler.compile(OutputConstraint(choice=ChoiceList(values=values)), 500)
    feed(state, tokenizer, values[4_321])
    assert state.is_complete()


def test_a_number_may_end_or_go_on(compiler: ConstraintCompiler, tokenizer: Tokenizer) -> None:
    state = compiler.compile(OutputConstraint(json_schema='{"type": "integer"}'), 500)
    feed(state, tokenizer, "4")
    assert not state.is_complete()
    allowed = state.allowed()
    assert allowed[EOS]
    assert allowed[tokenizer.encode("2").ids[0]]
    assert not allowed[tokenizer.encode("x").ids[0]]


def test_special_tokens_are_not_allowed_in_text(compiler: ConstraintCompiler) -> None:
    state = compiler.compile(OutputConstraint(json_schema='{"type": "string"}'), 500)
    assert not np.flatnonzero(state.allowed()[:17]).size


def test_white_space_is_not_allowed_between_json_tokens(compiler: ConstraintCompiler, tokenizer: Tokenizer) -> None:
    state = compiler.compile(OutputConstraint(json_object=True), 500)
    assert not state.allowed()[tokenizer.encode(" ").ids[0]]
    assert not state.allowed()[tokenizer.encode("\n").ids[0]]


def test_states_of_one_grammar_are_independent(compiler: ConstraintCompiler, tokenizer: Tokenizer) -> None:
    constraint = OutputConstraint(regex="abc")
    first = compiler.compile(constraint, 500)
    feed(first, tokenizer, "abc")
    assert not compiler.compile(constraint, 500).is_complete()


def test_what_the_grammar_cannot_express_is_left_to_the_validator(
    compiler: ConstraintCompiler, tokenizer: Tokenizer
) -> None:
    schema = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True, "not": {"const": []}}
    feed(compiler.compile(OutputConstraint(json_schema=json.dumps(schema)), 500), tokenizer, "[1,1]")


def test_boolean_schemas_are_taken(compiler: ConstraintCompiler, tokenizer: Tokenizer) -> None:
    feed(compiler.compile(OutputConstraint(json_schema="true"), 500), tokenizer, '{"a":1}')


def test_a_schema_that_contains_itself_is_taken(compiler: ConstraintCompiler, tokenizer: Tokenizer) -> None:
    schema = {"type": "object", "properties": {"child": {"$ref": "#"}}, "additionalProperties": False}
    feed(compiler.compile(OutputConstraint(json_schema=json.dumps(schema)), 500), tokenizer, '{"child":{"child":{}}}')


@pytest.mark.parametrize("regex", ["(a*)*b", "(a|aa)+$"])
def test_a_regex_that_others_choke_on_costs_nothing(
    compiler: ConstraintCompiler, tokenizer: Tokenizer, regex: str
) -> None:
    feed(compiler.compile(OutputConstraint(regex=regex), 500), tokenizer, "a" * 200)


def test_a_regex_that_explodes_on_the_way_is_a_typed_error(compiler: ConstraintCompiler, tokenizer: Tokenizer) -> None:
    state = compiler.compile(OutputConstraint(regex="((a{1,1000}){1,1000}){1,1000}b"), 500)
    with pytest.raises(InvalidRequest, match="too complex"):
        feed(state, tokenizer, "a" * 200)


def deep(levels: int) -> str:
    return '{"items":' * levels + "{}" + "}" * levels


@pytest.mark.parametrize(
    "constraint",
    [
        OutputConstraint(),
        OutputConstraint(json_schema="{"),
        OutputConstraint(json_schema="[]"),
        OutputConstraint(json_schema="nan"),
        OutputConstraint(json_schema='{"type": "foo"}'),
        OutputConstraint(json_schema='{"$ref": "http://example.com/schema"}'),
        OutputConstraint(json_schema='{"$ref": "#"}'),
        OutputConstraint(json_schema='{"$ref": "#/nowhere"}'),
        OutputConstraint(json_schema='{"type": "string", "pattern": "("}'),
        OutputConstraint(json_schema=deep(150)),
        OutputConstraint(json_schema=deep(3000)),
        OutputConstraint(regex="("),
        OutputConstraint(regex="(?=look)a"),
        OutputConstraint(grammar="start: nowhere"),
        OutputConstraint(grammar="\x00"),
        OutputConstraint(grammar="start: start"),
        OutputConstraint(grammar="root ::= nowhere"),
        OutputConstraint(choice=ChoiceList()),
        OutputConstraint(choice=ChoiceList(values=["a", ""])),
    ],
    ids=lambda constraint: str(constraint).strip()[:40],
)
def test_a_bad_constraint_is_a_typed_error(compiler: ConstraintCompiler, constraint: OutputConstraint) -> None:
    with pytest.raises(InvalidRequest) as caught:
        compiler.compile(constraint, 500)
    assert caught.value.reason == "INVALID_CONSTRAINT"
    assert caught.value.field is not None
    assert caught.value.field.startswith("constraint")


def test_a_constraint_that_is_too_long_is_refused_unread(compiler: ConstraintCompiler) -> None:
    with pytest.raises(InvalidRequest, match="262144 are allowed") as caught:
        compiler.check_size(OutputConstraint(json_schema=" " * 270_000))
    assert caught.value.reason == "CONSTRAINT_TOO_LARGE"


def test_the_librarys_own_switches_are_not_the_callers(compiler: ConstraintCompiler, tokenizer: Tokenizer) -> None:
    schema = {"x-guidance": {"whitespace_flexible": True}, "type": "object"}
    state = compiler.compile(OutputConstraint(json_schema=json.dumps(schema)), 500)
    assert not state.allowed()[tokenizer.encode("\n").ids[0]]


def test_a_token_that_does_not_fit_is_an_error(compiler: ConstraintCompiler, tokenizer: Tokenizer) -> None:
    state = compiler.compile(OutputConstraint(regex="abc"), 500)
    with pytest.raises(InvalidRequest, match="does not fit"):
        state.accept(tokenizer.encode("x").ids[0])


LOOSE = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "items": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "number": {"type": "integer", "minimum": 18},
        "maybe": {"type": ["string", "null"]},
        "kind": {"enum": ["alpha", "beta"]},
    },
    "required": ["text", "items", "number", "maybe", "kind"],
}


def write(constraint: GrammarConstraint, tokenizer: Tokenizer, *favourites: str) -> list[int]:
    """Always the first of the favourite tokens that is allowed, else the first that is."""
    liked = [tokenizer.encode(favourite).ids[0] for favourite in favourites]
    output: list[int] = []
    while not constraint.is_complete():
        allowed = constraint.allowed()
        token = next((token for token in liked if allowed[token]), int(np.flatnonzero(allowed)[0]))
        if not constraint.admits(token):
            token = int(np.flatnonzero(constraint.allowed())[0])
        if token == EOS:
            break
        output.append(token)
        constraint.accept(token)
    return output


@pytest.mark.parametrize("budget", [40, 41, 57, 100, 200])
@pytest.mark.parametrize("favourite", ["a", "\\", "1", "[", '"'])
def test_an_answer_that_runs_on_is_closed_in_time_and_is_valid(
    compiler: ConstraintCompiler, tokenizer: Tokenizer, budget: int, favourite: str
) -> None:
    state = compiler.compile(OutputConstraint(json_schema=json.dumps(LOOSE)), budget)
    output = write(state, tokenizer, favourite)
    assert len(output) <= budget
    jsonschema_rs.validate(LOOSE, json.loads(tokenizer.decode(output)))


def test_an_answer_that_was_closed_says_so_and_one_that_ended_by_itself_does_not(
    compiler: ConstraintCompiler, tokenizer: Tokenizer
) -> None:
    constraint = OutputConstraint(json_schema='{"type": "array", "items": {"type": "string"}}')
    cut = compiler.compile(constraint, 30)
    write(cut, tokenizer, "a")
    assert cut.was_cut()
    whole = compiler.compile(constraint, 30)
    feed(whole, tokenizer, '["a","b"]')
    assert whole.is_complete()
    assert not whole.was_cut()


def test_closing_follows_from_the_tokens_alone(compiler: ConstraintCompiler, tokenizer: Tokenizer) -> None:
    constraint = OutputConstraint(json_schema=json.dumps(LOOSE))
    output = write(compiler.compile(constraint, 60), tokenizer, "a")
    for cut in range(len(output)):
        again = compiler.compile(constraint, 60)
        for token in output[:cut]:
            again.accept(token)
        assert write(again, tokenizer, "a") == output[cut:]
        assert again.was_cut()


@pytest.mark.parametrize("budget", [60, 77, 100, 160])
def test_no_item_is_begun_that_could_not_be_completed(
    compiler: ConstraintCompiler, tokenizer: Tokenizer, budget: int
) -> None:
    names = ["street_name", "house_number", "postal_code", "country_code", "remarks"]
    properties = {name: {"type": "string", "maxLength": 3} for name in names}
    schema = {"type": "array", "items": {"type": "object", "properties": properties, "required": names}}
    state = compiler.compile(OutputConstraint(json_schema=json.dumps(schema)), budget)
    output = write(state, tokenizer, "[", "a", '"', ",", "{")
    assert state.was_cut()
    assert len(output) <= budget
    jsonschema_rs.validate(schema, json.loads(tokenizer.decode(output)))


def test_only_json_is_closed(compiler: ConstraintCompiler, tokenizer: Tokenizer) -> None:
    state = compiler.compile(OutputConstraint(regex="a{30}b"), 10)
    feed(state, tokenizer, "a" * 20)
    assert not state.was_cut()


def test_properties_that_the_schema_does_not_name_are_not_invented(
    compiler: ConstraintCompiler, tokenizer: Tokenizer
) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    state = compiler.compile(OutputConstraint(json_schema=json.dumps(schema)), 500)
    feed(state, tokenizer, '{"a":1}')
    assert state.is_complete()
