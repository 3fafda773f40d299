"""Messages from JSON that people write: what does not fit is refused in a sentence with the field and what it takes."""

from __future__ import annotations

from typing import NoReturn, TypeVar, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import Message

from stagemesh.runtime.errors import InvalidRequest

MAX_NAME_CHARS = 80
UINT32_MAX = 2**32 - 1
M = TypeVar("M", bound=Message)


def read_message(value: object, message: M, path: str) -> M:
    """`message`, filled from the JSON object `value`. Raises InvalidRequest with the path of the field at fault."""
    _check_object(value, cast("Descriptor", message.DESCRIPTOR), path)
    assert isinstance(value, dict)
    try:
        return ParseDict(value, message, max_recursion_depth=12)
    except ParseError:
        _refuse(path, "cannot be read")


def _check_object(value: object, form: Descriptor, path: str) -> None:
    if not isinstance(value, dict):
        _refuse(path, f"must be an object with {_names(form)}")
    known = {name: field for field in form.fields for name in (field.name, field.json_name)}
    for name, member in value.items():
        if name not in known:
            _refuse(f"{path}.{str(name)[:MAX_NAME_CHARS]}", f"is not known; {path} takes {_names(form)}")
        if member is not None:
            _check_member(member, known[name], f"{path}.{name}")
    for choice in form.oneofs:
        given = [name for name, member in value.items() if known[name].containing_oneof is choice]
        if len([name for name in given if value[name] is not None]) > 1:
            _refuse(path, f"takes one of {', '.join(field.name for field in choice.fields)}, not {' and '.join(given)}")


def _check_member(value: object, field: FieldDescriptor, path: str) -> None:
    if not field.is_repeated:
        _check_value(value, field, path)
        return
    if not isinstance(value, list):
        _refuse(path, f"must be an array of {_kind(field)[1]}")
    for index, item in enumerate(value):
        _check_value(item, field, f"{path}[{index}]")


def _check_value(value: object, field: FieldDescriptor, path: str) -> None:
    if field.message_type is not None:
        _check_object(value, field.message_type, path)
        return
    types, _, one = _kind(field)
    fits = isinstance(value, types) and isinstance(value, bool) == (types is bool)
    if not fits or (types is int and isinstance(value, int) and not 0 <= value <= UINT32_MAX):
        _refuse(path, f"must be {one}")


def _kind(field: FieldDescriptor) -> tuple[type | tuple[type, ...], str, str]:
    """Types in Python, and what JSON calls several and one of them."""
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING:
            return str, "strings", "a string"
        case FieldDescriptor.CPPTYPE_BOOL:
            return bool, "booleans", "true or false"
        case FieldDescriptor.CPPTYPE_DOUBLE | FieldDescriptor.CPPTYPE_FLOAT:
            return (int, float), "numbers", "a number"
        case FieldDescriptor.CPPTYPE_MESSAGE:
            return dict, "objects", "an object"
        case _:
            return int, "whole numbers", f"a whole number from 0 to {UINT32_MAX:,}"


def _names(form: Descriptor) -> str:
    return ", ".join(field.name for field in form.fields)


def _refuse(path: str, rule: str) -> NoReturn:
    raise InvalidRequest("INVALID_VALUE", f"{path} {rule}", field=path)
