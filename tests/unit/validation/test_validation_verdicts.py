"""Verdicts: where a text breaks its constraint, in sentences, with suggestions only where they are certain."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stagemesh.validation.anchors import Anchor
from stagemesh.validation.constraint import Constraint, Kind
from stagemesh.validation.json_text import compact, dump, is_deeper, parse
from stagemesh.validation.limits import Limits
from stagemesh.validation.pointer import parse_pointer, to_pointer
from stagemesh.validation.refusal import Refusal
from stagemesh.validation.validate import Validator
from stagemesh.validation.verdict import Issue, Severity, from_data, to_data

VALIDATOR = Validator(Limits())
OBJECT = Constraint(Kind.JSON_OBJECT)


def schema(**keywords: Any) -> Constraint:
    return Constraint(Kind.JSON_SCHEMA, json.dumps(keywords))


def only_issue(text: str, constraint: Constraint = OBJECT, *anchors: Anchor) -> Issue:
    verdict = VALIDATOR.validate(text, constraint, anchors)
    assert not verdict.valid
    assert len(verdict.issues) == 1
    return verdict.issues[0]


@pytest.mark.parametrize(
    ("keywords", "value", "rule", "message", "suggestion"),
    [
        ({"type": "integer"}, "3", "type", '/x must be an integer, but is the string "3"', "3"),
        ({"type": "integer"}, "3.5", "type", '/x must be an integer, but is the string "3.5"', ""),
        ({"type": "boolean"}, "true", "type", '/x must be true or false, but is the string "true"', "true"),
        ({"type": "string"}, 7, "type", "/x must be a string, but is the integer 7", '"7"'),
        ({"type": ["string", "null"]}, 7, "type", "/x must be null or a string, but is the integer 7", ""),
        ({"type": "object"}, [1], "type", "/x must be an object, but is an array", ""),
        ({"enum": ["On", "Off"]}, "on", "enum", '/x must be "On" or "Off", but is the string "on"', '"On"'),
        ({"enum": [1, 2]}, 3, "enum", "/x must be 1 or 2, but is the integer 3", ""),
        ({"const": None}, 3, "const", "/x must be null, but is the integer 3", "null"),
        ({"required": ["a"]}, {}, "required", '/x must have the property "a", which is missing', ""),
        ({"minimum": 5}, 3, "minimum", "/x must be at least 5, but is 3", ""),
        ({"maxLength": 1}, "ab", "maxLength", '/x must have at most 1 character, but has 2: "ab"', ""),
        ({"minItems": 2}, [1], "minItems", "/x must have at least 2 items, but has 1", ""),
        ({"uniqueItems": True}, [1, 1], "uniqueItems", "/x must not have equal items: 1 occurs more than once", ""),
        ({"pattern": "^a"}, "b", "pattern", '/x must match the pattern "^a", but is "b"', ""),
        ({"additionalProperties": False}, {"b": 1}, "additionalProperties",
         "/x must not have any properties: the schema allows none", ""),
        ({"properties": {}, "additionalProperties": False}, {"b": 1, "a": 2}, "additionalProperties",
         '/x must not have "a" and "b": the schema does not allow other properties', ""),
        ({"anyOf": [{"type": "string"}, {"required": ["z"]}]}, {}, "anyOf",
         "/x fits none of 2 alternatives; the closest one fails because /x must be a string, but is an object", ""),
    ],
)  # fmt: skip
def test_a_breach_is_said_in_a_sentence_with_its_place(
    keywords: dict[str, Any], value: Any, rule: str, message: str, suggestion: str
) -> None:
    issue = only_issue(json.dumps({"x": value}), schema(properties={"x": keywords}))
    assert issue == Issue(pointer="/x", rule=rule, message=message, suggestion=suggestion)


@pytest.mark.parametrize(
    ("keywords", "value", "pointers"),
    [
        ({"format": "date"}, "03/04/2026", ["/x"]),
        ({"format": "date"}, "2026-04-03", []),
        ({"format": "date"}, 5, []),
        ({"format": "no such format"}, "a", []),
        ({"items": {"anyOf": [{"format": "date"}, {"type": "null"}]}}, ["4. März 2025", None], ["/x/0"]),
        ({"anyOf": [{"type": "null"}, {"properties": {"a": {"format": "uri"}}}]}, {"a": "b c"}, ["/x/a"]),
        ({"anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]}, "::1", []),
    ],
)  # fmt: skip
def test_a_string_that_does_not_meet_its_format_is_a_warning(
    keywords: dict[str, Any], value: Any, pointers: list[str]
) -> None:
    verdict = VALIDATOR.validate(json.dumps({"x": value}), schema(properties={"x": keywords}))
    assert verdict.valid
    assert [(issue.pointer, issue.rule, issue.severity) for issue in verdict.issues] == [
        (pointer, "format", Severity.WARNING) for pointer in pointers
    ]


def test_a_format_is_said_once_in_a_sentence_beside_the_breaches() -> None:
    day = {"properties": {"x": {"type": "string", "format": "date"}, "y": {"type": "integer"}}}
    text = '{"x": "03/04/2026", "y": "b"}'
    warned = VALIDATOR.validate(text, schema(**day))
    assert [issue.pointer for issue in warned.issues] == ["/y", "/x"]
    message = '/x should be in the format "date" (like 2025-03-04), but is "03/04/2026"'
    assert warned.issues[1].message == message
    breached = VALIDATOR.validate(text, schema(**{"$schema": "http://json-schema.org/draft-07/schema#"}, **day))
    assert [(issue.pointer, issue.severity) for issue in breached.issues] == [
        ("/x", Severity.ERROR),
        ("/y", Severity.ERROR),
    ]


@pytest.mark.parametrize(
    ("text", "rule", "pointer", "words"),
    [
        ("", "json.syntax", "", "empty or cut off"),
        ('{"a": [1, 2', "json.syntax", "", "empty or cut off"),
        ('{"a":1,}', "json.syntax", "", "line 1, column 8"),
        ("```json\n{}\n```", "json.syntax", "", "column 1"),
        ('{"a":1} and more', "json.syntax", "", "extra data"),
        ('{"a":NaN}', "json.number", "", "NaN"),
        ('{"a":-Infinity}', "json.number", "", "-Infinity"),
        ('{"a":1e999}', "json.number", "", "1e999"),
        ('{"a":' + "1" * 5_000 + "}", "json.number", "", "5000 digits"),
        ('{"x":{"k":1,"k":2}}', "json.duplicate", "/x/k", '"k"'),
        ('{"x":{"k":1,"k":2},"x":1}', "json.duplicate", "/x", '"x"'),
        ('{"a":"\\ud800"}', "json.syntax", "/a", "surrogate"),
        ("[" * 1_000_000, "json.depth", "", "128"),
        ('{"a":' * 200 + "1" + "}" * 200, "json.depth", "", "128"),
        ('"' + '\\"' * 400_000, "json.syntax", "", "unterminated"),
        ("[1]", "type", "", "array"),
    ],
)
def test_what_is_not_strict_json_is_an_issue(text: str, rule: str, pointer: str, words: str) -> None:
    issue = only_issue(text)
    assert (issue.rule, issue.pointer) == (rule, pointer)
    assert words in issue.message


def test_numbers_keep_their_digits() -> None:
    text = '{"price": 1.10, "big": 123456789012345678901234567890.5, "e": 1E5}'
    verdict = VALIDATOR.validate(text, OBJECT)
    assert verdict.value == '{"price":1.10,"big":123456789012345678901234567890.5,"e":1E5}'
    assert dump(parse('{"price": 1.10, "tiny": 1e-400}', max_depth=5)) == '{"price":1.10,"tiny":1E-400}'


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON, st.sampled_from([None, 2]), st.booleans())
def test_parsing_dumping_and_compacting_keep_the_value(value: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    parsed = parse(text, max_depth=100)
    assert parsed == value
    assert json.loads(dump(parsed)) == value
    assert json.loads(compact(text)) == value
    assert compact(text) == json.dumps(value, separators=(",", ":"), ensure_ascii=ascii_only)


@given(st.text(alphabet='[]{}"\\a', max_size=40), st.integers(0, 5))
def test_the_depth_of_any_text_can_be_asked(text: str, max_depth: int) -> None:
    assert not (is_deeper(text, max_depth) and not is_deeper(text, 0))
    assert not is_deeper(text, len(text))


@given(st.integers(0, 20), st.integers(0, 20))
def test_depth_counts_open_brackets_outside_of_strings(depth: int, max_depth: int) -> None:
    text = "[" * depth + '"[[[[\\"[[["' + "]" * depth
    assert is_deeper(text, max_depth) == (depth > max_depth)


@given(st.lists(st.text(max_size=5), max_size=5))
def test_pointers_are_read_back(names: list[str]) -> None:
    assert list(parse_pointer(to_pointer(names))) == names


def test_issues_are_bounded_and_say_how_many_there_are() -> None:
    verdict = VALIDATOR.validate(json.dumps(["x"] * 1_000), schema(items={"type": "integer"}))
    assert len(verdict.issues) == 21
    assert verdict.issues[-1].message == "there are 1000 issues; 980 of them are not listed"


def test_a_verdict_survives_its_way_out_of_the_sandbox() -> None:
    verdict = VALIDATOR.validate('{"y": 1}', OBJECT, [Anchor("/x", ("a",))])
    assert verdict.valid
    assert verdict.issues[0].severity is Severity.WARNING
    assert from_data(json.loads(json.dumps(to_data(verdict)))) == verdict


@pytest.mark.parametrize(
    ("constraint", "reason", "field"),
    [
        (Constraint(Kind.JSON_SCHEMA, "{"), "INVALID_SCHEMA", "constraint.json_schema"),
        (Constraint(Kind.JSON_SCHEMA, "[]"), "INVALID_SCHEMA", "constraint.json_schema"),
        (Constraint(Kind.JSON_SCHEMA, '{"a":1,"a":2}'), "INVALID_SCHEMA", "constraint.json_schema#/a"),
        (schema(properties={"a": {"type": "strin"}}), "INVALID_SCHEMA", "constraint.json_schema#/properties/a/type"),
        (schema(properties={"a": {"pattern": "(a"}}), "INVALID_SCHEMA", "constraint.json_schema#/properties/a/pattern"),
        (schema(**{"$ref": "http://example.com/x"}), "INVALID_SCHEMA", "constraint.json_schema#/$ref"),
        (schema(**{"$ref": "file:///etc/passwd"}), "INVALID_SCHEMA", "constraint.json_schema#/$ref"),
        (schema(items={"$ref": "#/$defs/none"}), "INVALID_SCHEMA", "constraint.json_schema#/items/$ref"),
        (schema(**{"$schema": "http://example.com/"}), "INVALID_SCHEMA", "constraint.json_schema#/$schema"),
        (Constraint(Kind.JSON_SCHEMA, " " * 300_000), "CONSTRAINT_TOO_LARGE", "constraint.json_schema"),
        (Constraint(Kind.REGEX, "(a"), "INVALID_REGEX", "constraint.regex"),
        (Constraint(Kind.REGEX, "(?=a)b"), "INVALID_REGEX", "constraint.regex"),
        (Constraint(Kind.REGEX, ""), "INVALID_REGEX", "constraint.regex"),
        (Constraint(Kind.GRAMMAR, "start: x"), "INVALID_GRAMMAR", "constraint.grammar"),
        (Constraint(Kind.GRAMMAR, "root ::= x"), "INVALID_GRAMMAR", "constraint.grammar"),
        (Constraint(Kind.GRAMMAR, 'root ::= "\\'), "INVALID_GRAMMAR", "constraint.grammar"),
        (Constraint(Kind.GRAMMAR, "root ::= " + "(" * 9_000), "INVALID_GRAMMAR", "constraint.grammar"),
        (Constraint(Kind.GRAMMAR, "root ::= " + " " * 300_000), "CONSTRAINT_TOO_LARGE", "constraint.grammar"),
        (Constraint(Kind.CHOICE), "INVALID_CHOICE", "constraint.choice"),
        (Constraint(Kind.CHOICE, choices=("a", "")), "INVALID_CHOICE", "constraint.choice"),
    ],
)  # fmt: skip
def test_what_cannot_be_enforced_is_refused_with_its_place(constraint: Constraint, reason: str, field: str) -> None:
    with pytest.raises(Refusal) as caught:
        VALIDATOR.check(constraint, [])
    assert (caught.value.reason, caught.value.field) == (reason, field)


def test_a_recursive_schema_is_followed_into_the_value() -> None:
    tree = schema(
        **{
            "$ref": "#/$defs/node",
            "$defs": {"node": {"type": "object", "properties": {"child": {"$ref": "#/$defs/node"}}}},
        }
    )
    assert VALIDATOR.validate('{"child":{"child":{}}}', tree).valid
    assert only_issue('{"child":{"child":3}}', tree).pointer == "/child/child"


@pytest.mark.parametrize(
    ("constraint", "good", "bad"),
    [
        (Constraint(Kind.REGEX, "[0-9]{3}"), "123", "1234"),
        (Constraint(Kind.REGEX, "^[0-9]{3}$"), "123", "12"),
        (Constraint(Kind.REGEX, "(a+)+$"), "a" * 40, "a" * 40 + "b"),
        (Constraint(Kind.REGEX, "名.*"), "名字", "字名"),
        (Constraint(Kind.GRAMMAR, 'start: "a"+ "b"'), "aab", "aa"),
        (Constraint(Kind.GRAMMAR, 'root ::= "a"+ tail\ntail ::= [bc]'), "aac", "aa"),
        (Constraint(Kind.GRAMMAR, 'start: "x ::= y"'), "x ::= y", "x"),
        (Constraint(Kind.CHOICE, choices=("yes", "no")), "yes", "Yes"),
    ],
)
def test_texts_that_are_no_json_are_matched_as_a_whole(constraint: Constraint, good: str, bad: str) -> None:
    assert VALIDATOR.validate(good, constraint).valid
    assert only_issue(bad, constraint).pointer == ""


CITIES = ("上海", "北京", "Shanghai Pudong", "ABC-1", "AB", "同上", "ＸＹＺ", "XYZ")


@pytest.mark.parametrize(
    ("value", "rule", "suggestion"),
    [
        ("上 海", "anchor.near", '"上海"'),
        ("ＡＢＣ－１", "anchor.near", '"ABC-1"'),
        ("Shanghai   Pudong ", "anchor.near", '"Shanghai Pudong"'),
        ("北就", "anchor.near", '"北京"'),
        ("ABC1", "anchor.near", '"ABC-1"'),
        ("ACB-1", "anchor.near", '"ABC-1"'),
        ("CBA-1", "anchor.unknown", ""),
        ("AC", "anchor.unknown", ""),
        ("上", "anchor.unknown", ""),
        ("xyz", "anchor.unknown", ""),
        (["AB"], "anchor.type", ""),
        (True, "anchor.type", ""),
        ("ＸYZ", "anchor.ambiguous", ""),
        ("XYZW", "anchor.ambiguous", ""),
    ],
)
def test_an_anchored_value_is_known_near_ambiguous_or_unknown(value: Any, rule: str, suggestion: str) -> None:
    issue = only_issue(json.dumps({"x": [{"n": value}]}), OBJECT, Anchor("/x/*/n", CITIES))
    assert (issue.pointer, issue.rule, issue.suggestion) == ("/x/0/n", rule, suggestion)


@pytest.mark.parametrize("value", ["上海", "ABC-1", None])
def test_a_key_of_the_set_or_null_is_no_issue(value: Any) -> None:
    assert VALIDATOR.validate(json.dumps({"x": value}), OBJECT, [Anchor("/x", CITIES)]).issues == ()


def test_case_is_ignored_only_where_asked() -> None:
    assert VALIDATOR.validate('{"x":"abc-1"}', OBJECT, [Anchor("/x", CITIES, ignore_case=True)]).valid
    assert only_issue('{"x":"abc-1"}', OBJECT, Anchor("/x", CITIES)).rule == "anchor.unknown"
    assert only_issue('{"x":"abd-1"}', OBJECT, Anchor("/x", CITIES, ignore_case=True)).suggestion == '"ABC-1"'


def test_a_number_is_compared_as_it_is_written() -> None:
    assert VALIDATOR.validate('{"sku":1001}', OBJECT, [Anchor("/sku", ("1001",))]).valid


def test_an_anchor_on_the_whole_answer_needs_no_json() -> None:
    anchor = Anchor("", ("Shanghai", "Beijing"))
    assert VALIDATOR.validate("Beijing", Constraint(), [anchor]).valid
    assert only_issue("Beijng", Constraint(), anchor).suggestion == '"Beijing"'


@pytest.mark.parametrize(
    ("anchors", "field"),
    [
        ([Anchor("x", ("a",))], "anchors[0].pointer"),
        ([Anchor("/ok", ("a",)), Anchor("/~2", ("a",))], "anchors[1].pointer"),
        ([Anchor("/" * 100, ("a",))], "anchors[0].pointer"),
        ([Anchor("/x", ())], "anchors[0].keys"),
        ([Anchor("/x", ("a" * 300,))], "anchors[0].keys"),
        ([Anchor("/x", ("a",) * 20_001)], "anchors"),
        ([Anchor("/x", ("a",))] * 65, "anchors"),
    ],
)
def test_an_unusable_anchor_is_refused_by_name(anchors: list[Anchor], field: str) -> None:
    with pytest.raises(Refusal) as caught:
        VALIDATOR.check(OBJECT, anchors)
    assert (caught.value.reason, caught.value.field) == ("INVALID_ANCHOR", field)


def test_fields_of_a_plain_text_cannot_be_anchored() -> None:
    with pytest.raises(Refusal):
        VALIDATOR.check(Constraint(Kind.REGEX, "a"), [Anchor("/x", ("a",))])


def test_a_text_over_the_limit_is_refused() -> None:
    with pytest.raises(Refusal) as caught:
        VALIDATOR.validate("林" * 400_000, OBJECT)
    assert caught.value.reason == "TEXT_TOO_LARGE"
