"""Anchors: a field must be one of the keys of a reference set.

A near miss is reported with the key that was meant; whether to put it in is the corrector's business. It is a value
that differs only in form (width, compatibility characters, spaces), or by one edit: a character inserted, deleted or
changed, or two neighbours swapped; a stored set may allow none or two. Where several keys are equally near, none is
suggested.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rapidfuzz import process
from rapidfuzz.distance import OSA

from stagemesh.validation.anchor_match import MAX_NEAR, Found, Match, may_be_edited
from stagemesh.validation.forms import form_of as form_of
from stagemesh.validation.json_text import dump
from stagemesh.validation.limits import Limits
from stagemesh.validation.pointer import find, parse_pointer, to_pointer
from stagemesh.validation.refusal import Refusal
from stagemesh.validation.sentences import listed, quoted, type_of
from stagemesh.validation.verdict import Issue, Severity

if TYPE_CHECKING:
    from stagemesh.validation.anchor_index import AnchorIndex

MAX_POINTER_NAMES = 64
MIN_INDEXED = 1_000
"""Keys of a request from which on an index of them is built; fewer are compared one by one."""
MAX_OPEN_BYTES = 320 << 20
"""Files of stored sets that a process keeps mapped together; at least the last one."""
NEAR = "anchor.near"
"""The rule of issues whose suggestion is the one key that was meant."""


@dataclass(frozen=True)
class Anchor:
    pointer: str
    keys: tuple[str, ...]
    ignore_case: bool = False
    set_name: str = ""
    """A stored set, in place of keys."""
    index: str = ""
    """The file of that set, once it was looked up."""


class Keys(Protocol):
    """A set of keys, ready for comparison."""

    def __len__(self) -> int: ...

    def __hash__(self) -> int: ...

    def lookup(self, value: str) -> Found: ...

    def some(self, count: int) -> tuple[str, ...]:
        """A few of them, to be shown."""

    def spread(self, count: int) -> tuple[str, ...]:
        """Some from all over the set."""


class KeySet:
    """The keys that a request brings along."""

    def __init__(self, keys: Sequence[str], *, ignore_case: bool) -> None:
        self._fold = str.casefold if ignore_case else str
        self._keys = tuple(keys)
        self._exact = {self._fold(key): key for key in reversed(keys)}
        self._by_form: dict[str, list[str]] = {}
        for key in dict.fromkeys(keys):
            self._by_form.setdefault(self._form(key), []).append(key)
        self._forms = list(self._by_form)

    def __len__(self) -> int:
        return len(self._keys)

    def lookup(self, value: str) -> Found:
        if (key := self._exact.get(self._fold(value))) is not None:
            return Found(Match.EXACT, (key,))
        form = self._form(value)
        if same := self._by_form.get(form):
            return Found.of(same)
        if not may_be_edited(form):
            return Found(Match.UNKNOWN)
        near = process.extract(form, self._forms, scorer=OSA.distance, score_cutoff=1, limit=MAX_NEAR)
        keys = [key for found, _, _ in near for key in self._by_form[found]]
        return Found.of(keys) if keys else Found(Match.UNKNOWN)

    def some(self, count: int) -> tuple[str, ...]:
        return self._keys[:count]

    def spread(self, count: int) -> tuple[str, ...]:
        return self._keys[:: max(1, -(-len(self._keys) // count))]

    def _form(self, text: str) -> str:
        return self._fold(form_of(text))


class AnchorCheck:
    """One anchor, ready to be applied to parsed values."""

    def __init__(self, anchor: Anchor, keys: Keys) -> None:
        self._names = parse_pointer(anchor.pointer)
        self._pointer = anchor.pointer
        self._set = f"the set {quoted(anchor.set_name)}" if anchor.set_name else "its reference set"
        self._keys = keys

    def issues(self, value: Any, *, max_values: int) -> list[Issue]:
        found: list[Issue] = []
        for number, (path, item) in enumerate(find(value, self._names)):
            if number == max_values:
                message = f"{self._pointer} leads to more than {max_values} values; the others were not compared"
                return [*found, Issue(pointer="", rule="anchor.limit", message=message)]
            if issue := self._issue(to_pointer(path), item):
                found.append(issue)
        if not found and "*" not in self._names and next(find(value, self._names), None) is None:
            return [self._absent()]
        return found

    def _absent(self) -> Issue:
        message = f"there is nothing at {self._pointer}, so it was not compared with its reference set"
        return Issue(pointer=self._pointer, rule="anchor.missing", message=message, severity=Severity.WARNING)

    def _issue(self, pointer: str, item: Any) -> Issue | None:
        if item is None:
            return None  # whether a field may be empty is for the schema to say
        if isinstance(item, bool) or not isinstance(item, str | int | float | Decimal):
            message = f"{_subject(pointer)} must be one of the reference keys, but is of type {type_of(item)}"
            return Issue(pointer=pointer, rule="anchor.type", message=message)
        found = self._keys.lookup(item if isinstance(item, str) else dump(item))
        return None if found.match is Match.EXACT else self._near_issue(pointer, item, found)

    def _near_issue(self, pointer: str, item: Any, found: Found) -> Issue:
        subject = f"{_subject(pointer)} is {quoted(item)}, which is not in {self._set}"
        keys = found.keys
        if found.match is Match.NEAR:
            message = f"{subject}; use {quoted(keys[0])}"
            return Issue(pointer=pointer, rule=NEAR, message=message, suggestion=dump(keys[0]))
        if found.match is Match.AMBIGUOUS:
            near = f"{listed(keys)} are equally near" if keys else "too many keys are like it to be compared"
            return Issue(pointer=pointer, rule="anchor.ambiguous", message=f"{subject}; {near}, so none is chosen")
        some = self._keys.some(5)
        more = "" if len(self._keys) <= len(some) else f" … ({len(self._keys):,} in all)"
        message = f"{subject}, and no key is near it; the keys are {listed(some, 'and')}{more}"
        return Issue(pointer=pointer, rule="anchor.unknown", message=message)


def compile_anchors(anchors: Sequence[Anchor], limits: Limits) -> list[AnchorCheck]:
    """Raises Refusal INVALID_ANCHOR that names the anchor."""
    if len(anchors) > limits.max_anchors:
        raise _invalid("anchors", f"there are {len(anchors)} anchors; {limits.max_anchors} are allowed")
    num_keys = sum(len(anchor.keys) for anchor in anchors)
    if num_keys > limits.max_anchor_keys:
        raise _invalid("anchors", f"the anchors have {num_keys} keys; {limits.max_anchor_keys} are allowed")
    return [_compile(anchor, f"anchors[{index}]", limits) for index, anchor in enumerate(anchors)]


def _compile(anchor: Anchor, field: str, limits: Limits) -> AnchorCheck:
    keys = compile_keys(anchor, field, limits)
    if anchor.pointer.count("/") > MAX_POINTER_NAMES:
        raise _invalid(f"{field}.pointer", f"a pointer may have {MAX_POINTER_NAMES} names")
    try:
        return AnchorCheck(anchor, keys)
    except ValueError as error:
        raise _invalid(f"{field}.pointer", str(error)) from None


def compile_keys(anchor: Anchor, field: str, limits: Limits) -> Keys:
    """Raises Refusal INVALID_ANCHOR."""
    if anchor.set_name:
        if anchor.keys:
            raise _invalid(field, "give keys or the name of a stored set, one of them")
        if not anchor.index:
            raise _invalid(f"{field}.set", f"there are no stored sets here, so {quoted(anchor.set_name)} is not known")
        return StoredKeys(anchor.index)
    if not anchor.keys or not all(anchor.keys):
        raise _invalid(f"{field}.keys", "give at least one key, none of them empty")
    if any(len(key) > limits.max_key_chars for key in anchor.keys):
        raise _invalid(f"{field}.keys", f"a key may have {limits.max_key_chars} characters")
    if len(anchor.keys) < MIN_INDEXED or not all(map(form_of, anchor.keys)):
        return KeySet(anchor.keys, ignore_case=anchor.ignore_case)
    from stagemesh.validation.anchor_build import build_here  # numpy is only loaded where an index is used

    return build_here(tuple(dict.fromkeys(anchor.keys)), ignore_case=anchor.ignore_case, max_edits=1)


class StoredKeys:
    """The keys in a file; the file is open while it is used and for as long as there is room."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __len__(self) -> int:
        return len(open_index(self._path))

    def lookup(self, value: str) -> Found:
        return open_index(self._path).lookup(value)

    def some(self, count: int) -> tuple[str, ...]:
        return open_index(self._path).some(count)

    def spread(self, count: int) -> tuple[str, ...]:
        return open_index(self._path).spread(count)


_open: OrderedDict[str, AnchorIndex] = OrderedDict()


def open_index(path: str) -> AnchorIndex:
    """A file of another generation has another name, so an open one never changes. Raises OSError."""
    from stagemesh.validation.anchor_index import AnchorIndex  # numpy is only loaded where an index is used

    if path not in _open:
        _open[path] = AnchorIndex.open(Path(path))
        while len(_open) > 1 and sum(index.num_bytes for index in _open.values()) > MAX_OPEN_BYTES:
            _open.popitem(last=False)
    _open.move_to_end(path)
    return _open[path]


def _invalid(field: str, message: str) -> Refusal:
    return Refusal("INVALID_ANCHOR", message, field=field)


def _subject(pointer: str) -> str:
    return pointer or "the value"
