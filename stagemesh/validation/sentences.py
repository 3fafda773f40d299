"""JSON Schema errors as sentences that a caller, or a model, can act on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from jsonschema_rs import ValidationError, ValidationErrorKind

from stagemesh.validation.json_text import BadJson, dump, parse
from stagemesh.validation.pointer import to_pointer

Kind = ValidationErrorKind

TYPES = {
    "object": "an object",
    "array": "an array",
    "string": "a string",
    "number": "a number",
    "integer": "an integer",
    "boolean": "true or false",
    "null": "null",
}
FORBIDDING = frozenset(
    {"additionalProperties", "propertyNames", "properties", "patternProperties", "items", "prefixItems"}
)
"""Keywords under which a schema `false` is common."""
MAX_QUOTED_CHARS = 80
MAX_LISTED = 12
MAX_ALTERNATIVES = 4


def sentence_of(error: ValidationError, *, nested: int = 0) -> str:
    """`/qty must be an integer, but is the string "3"`."""
    subject = to_pointer(error.instance_path) or "the value"
    return f"{subject} {_predicate(error, nested)}"


def rule_of(error: ValidationError) -> str:
    """The keyword that failed."""
    if isinstance(error.kind, Kind.FalseSchema):
        keywords = [part for part in error.schema_path[-2:] if part in FORBIDDING]
        return str(keywords[-1]) if keywords else "false"
    return error.kind.name


def suggestion_of(error: ValidationError) -> str:
    """JSON of the one value that would do, or an empty string."""
    match error.kind:
        case Kind.Constant():
            return dump(error.kind.expected_value)
        case Kind.Enum():
            return _only_option(error.kind.options, error.instance)
        case Kind.Type():
            return _same_text_as_type(error.kind.types, error.instance)
    return ""


def quoted(value: Any) -> str:
    """Compact JSON, shortened in the middle where it is long."""
    text = (
        dump(value) if not isinstance(value, dict | list) or len(value) <= 50 else f"{type_of(value)} of {len(value)}"
    )
    if len(text) <= MAX_QUOTED_CHARS:
        return text
    return f"{text[: MAX_QUOTED_CHARS - 20]} … {text[-15:]}"


def type_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float() | Decimal():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def listed(values: Sequence[Any], join: str = "or") -> str:
    """`1, 2 or 3`, of long lists the beginning."""
    if not values:
        return "nothing"
    texts = [quoted(value) for value in values[:MAX_LISTED]]
    if len(values) > MAX_LISTED:
        return f"{', '.join(texts)} … ({len(values)} in all)"
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} {join} {texts[-1]}"


def _predicate(error: ValidationError, nested: int) -> str:
    kind, value = error.kind, _instance(error)
    match kind:
        case Kind.Type():
            return f"must be {' or '.join(TYPES.get(name, name) for name in sorted(kind.types))}, but is {_is(value)}"
        case Kind.Required():
            return f"must have the property {quoted(kind.property)}, which is missing"
        case Kind.AdditionalProperties() | Kind.UnevaluatedProperties():
            return f"must not have {listed(sorted(kind.unexpected), 'and')}: the schema does not allow other properties"
        case Kind.AdditionalItems():
            return f"may have at most {_count(kind.limit, 'item')}, but has {len(value)}"
        case Kind.UnevaluatedItems():
            return f"must not have the items {listed(kind.unexpected, 'and')}"
        case Kind.Constant():
            return f"must be {quoted(kind.expected_value)}, but is {_is(value)}"
        case Kind.Enum():
            return f"must be {listed(kind.options)}, but is {_is(value)}"
        case Kind.AnyOf() | Kind.OneOfNotValid():
            return f"fits none of {len(kind.context)} alternatives{_closest(kind.context, nested)}"
        case Kind.OneOfMultipleValid():
            return "fits more than one of the alternatives, but must fit exactly one"
        case Kind.PropertyNames():
            return f"has a property name that is not allowed: {_predicate(kind.error, nested + 1)}"
    return _bounds(error)


def _bounds(error: ValidationError) -> str:
    kind, value = error.kind, _instance(error)
    match kind:
        case Kind.Minimum():
            return f"must be at least {kind.limit}, but is {quoted(value)}"
        case Kind.Maximum():
            return f"must be at most {kind.limit}, but is {quoted(value)}"
        case Kind.ExclusiveMinimum():
            return f"must be greater than {kind.limit}, but is {quoted(value)}"
        case Kind.ExclusiveMaximum():
            return f"must be less than {kind.limit}, but is {quoted(value)}"
        case Kind.MultipleOf():
            return f"must be a multiple of {kind.multiple_of}, but is {quoted(value)}"
        case Kind.MinLength():
            return f"must have at least {_count(kind.limit, 'character')}, but has {len(value)}: {quoted(value)}"
        case Kind.MaxLength():
            return f"must have at most {_count(kind.limit, 'character')}, but has {len(value)}: {quoted(value)}"
        case Kind.MinItems():
            return f"must have at least {_count(kind.limit, 'item')}, but has {len(value)}"
        case Kind.MaxItems():
            return f"must have at most {_count(kind.limit, 'item')}, but has {len(value)}"
        case Kind.MinProperties():
            return f"must have at least {_count(kind.limit, 'property')}, but has {len(value)}"
        case Kind.MaxProperties():
            return f"must have at most {_count(kind.limit, 'property')}, but has {len(value)}"
    return _content(error)


def _content(error: ValidationError) -> str:
    kind, value = error.kind, _instance(error)
    match kind:
        case Kind.Pattern():
            return f"must match the pattern {quoted(kind.pattern)}, but is {quoted(value)}"
        case Kind.Format() if kind.format == "regex":
            return f"must be a regular expression without errors, unlike {quoted(value)}"
        case Kind.Format():
            return f"must be in the format {quoted(kind.format)}, but is {quoted(value)}"
        case Kind.BacktrackLimitExceeded() | Kind.RegexEngineFailure():
            return f"could not be matched: the schema's pattern takes too many steps on {quoted(value)}"
        case Kind.UniqueItems():
            return f"must not have equal items{_repeated(value)}"
        case Kind.Contains():
            return "has too few or too many items of the kind that it must contain"
        case Kind.FalseSchema():
            return _forbidden(error)
        case Kind.Not():
            return f"must not fit the schema {quoted(kind.schema)}, but does: {quoted(value)}"
    return f"breaks the rule {kind.name!r}: {error.message.splitlines()[0][:200]}"


def _forbidden(error: ValidationError) -> str:
    rule = rule_of(error)
    if rule in {"additionalProperties", "propertyNames"}:
        return "must not have any properties: the schema allows none"
    if rule != "false":
        return f"must be left out: the schema allows no value here, but there is {quoted(error.instance)}"
    return f"does not fit: the schema allows nothing at {to_pointer(error.schema_path) or 'its root'}"


def _instance(error: ValidationError) -> Any:
    return error.instance


def _is(value: Any) -> str:
    name = type_of(value)
    if name in {"null", "boolean"}:
        return quoted(value)
    return f"{TYPES[name]}" if name in {"object", "array"} else f"the {name} {quoted(value)}"


def _count(number: int, noun: str) -> str:
    plural = "properties" if noun == "property" else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"


def _closest(context: Sequence[Sequence[ValidationError]], nested: int) -> str:
    """The complaints of the alternative that is least wrong: the deepest, then the fewest."""
    candidates = [errors for errors in context if errors]
    if not candidates or nested >= MAX_ALTERNATIVES:
        return ""
    best = min(candidates, key=lambda errors: (-min(len(error.instance_path) for error in errors), len(errors)))
    more = f" and {len(best) - 2} more" if len(best) > 2 else ""
    return f"; the closest one fails because {'; '.join(sentence_of(e, nested=nested + 1) for e in best[:2])}{more}"


def _repeated(value: Any) -> str:
    seen: set[str] = set()
    for item in value if len(value) <= 1_000 else ():
        text = json.dumps(item, sort_keys=True, default=str)
        if text in seen:
            return f": {quoted(item)} occurs more than once"
        seen.add(text)
    return ""


def _only_option(options: Sequence[Any], value: Any) -> str:
    if len(options) == 1:
        return dump(options[0])
    if not isinstance(value, str):
        return ""
    same = [option for option in options if isinstance(option, str) and _folded(option) == _folded(value)]
    return dump(same[0]) if len(same) == 1 else ""


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def _same_text_as_type(types: Sequence[str], value: Any) -> str:
    """The value that a string spells, if its type is asked for; the string that spells a number, if that is."""
    if len(types) != 1:
        return ""
    if isinstance(value, str) and types[0] in {"integer", "number", "boolean", "null"} and len(value) <= 100:
        try:
            spelled = parse(value, max_depth=1)
        except BadJson:
            return ""
        name = type_of(spelled)
        return dump(spelled) if name == types[0] or (name, types[0]) == ("integer", "number") else ""
    if types[0] == "string" and isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return dump(dump(value))
    return ""
