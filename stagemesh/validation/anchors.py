"""Anchors: a field must be one of the keys of a reference set.

A near miss is reported with the key that was meant; whether to put it in is the corrector's business. It is a value
that differs only in form (width, compatibility characters, spaces), or by one edit: a character inserted, deleted or
changed, or two neighbours swapped. Where several keys are equally near, none is suggested.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from rapidfuzz import process
from rapidfuzz.distance import OSA

from stagemesh.validation.json_text import dump
from stagemesh.validation.limits import Limits
from stagemesh.validation.pointer import find, parse_pointer, to_pointer
from stagemesh.validation.refusal import Refusal
from stagemesh.validation.sentences import listed, quoted, type_of
from stagemesh.validation.verdict import Issue, Severity

MIN_EDIT_CHARS = 3
"""Shorter values are never taken for another key by an edit: half of `A1` would be guessed."""
MIN_CJK_EDIT_CHARS = 2
"""The same for values with a Chinese or Japanese character, each of which says as much as a syllable."""
MAX_POINTER_NAMES = 64
NEAR = "anchor.near"
"""The rule of issues whose suggestion is the one key that was meant."""

_CJK = r"\u2e80-\u303f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_HAS_CJK = re.compile(f"[{_CJK}]")
_SPACES_IN_CJK = re.compile(rf"(?<=[{_CJK}])\s+(?=[{_CJK}])")


@dataclass(frozen=True)
class Anchor:
    pointer: str
    keys: tuple[str, ...]
    ignore_case: bool = False


def form_of(text: str) -> str:
    """The text in one width and compatibility form, without needless spaces."""
    return _SPACES_IN_CJK.sub("", " ".join(unicodedata.normalize("NFKC", text).split()))


class KeySet:
    """The keys of one anchor, prepared for comparison."""

    def __init__(self, keys: Sequence[str], *, ignore_case: bool) -> None:
        self._fold = str.casefold if ignore_case else str
        self._exact = {self._fold(key) for key in keys}
        self._by_form: dict[str, list[str]] = {}
        for key in dict.fromkeys(keys):
            self._by_form.setdefault(self._form(key), []).append(key)
        self._forms = list(self._by_form)

    def __contains__(self, value: str) -> bool:
        return self._fold(value) in self._exact

    def nearest(self, value: str) -> tuple[str, ...]:
        """The keys that a value which is none of them may have meant: all that are equally near."""
        form = self._form(value)
        if same := self._by_form.get(form):
            return tuple(same)
        if len(form) < (MIN_CJK_EDIT_CHARS if _HAS_CJK.search(form) else MIN_EDIT_CHARS):
            return ()
        near = process.extract(form, self._forms, scorer=OSA.distance, score_cutoff=1, limit=None)
        return tuple(key for found, _, _ in near for key in self._by_form[found])

    def _form(self, text: str) -> str:
        return self._fold(form_of(text))


class AnchorCheck:
    """One anchor, ready to be applied to parsed values."""

    def __init__(self, anchor: Anchor) -> None:
        self._names = parse_pointer(anchor.pointer)
        self._pointer = anchor.pointer
        self._keys = KeySet(anchor.keys, ignore_case=anchor.ignore_case)
        self._num_keys = len(anchor.keys)
        self._some_keys = anchor.keys[:5]

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
        text = item if isinstance(item, str) else dump(item)
        if text in self._keys:
            return None
        return self._near_issue(pointer, item, self._keys.nearest(text))

    def _near_issue(self, pointer: str, item: Any, keys: tuple[str, ...]) -> Issue:
        subject = f"{_subject(pointer)} is {quoted(item)}, which is not in its reference set"
        if not keys:
            more = "" if self._num_keys <= len(self._some_keys) else " …"
            message = f"{subject}, and no key is near it; the keys are {listed(self._some_keys, 'and')}{more}"
            return Issue(pointer=pointer, rule="anchor.unknown", message=message)
        if len(keys) > 1:
            message = f"{subject}; {listed(keys)} are equally near, so none is chosen"
            return Issue(pointer=pointer, rule="anchor.ambiguous", message=message)
        return Issue(
            pointer=pointer,
            rule=NEAR,
            message=f"{subject}; use {quoted(keys[0])}",
            suggestion=dump(keys[0]),
        )


def compile_anchors(anchors: Sequence[Anchor], limits: Limits) -> list[AnchorCheck]:
    """Raises Refusal INVALID_ANCHOR that names the anchor."""
    if len(anchors) > limits.max_anchors:
        raise _invalid("anchors", f"there are {len(anchors)} anchors; {limits.max_anchors} are allowed")
    num_keys = sum(len(anchor.keys) for anchor in anchors)
    if num_keys > limits.max_anchor_keys:
        raise _invalid("anchors", f"the anchors have {num_keys} keys; {limits.max_anchor_keys} are allowed")
    return [_compile(anchor, f"anchors[{index}]", limits) for index, anchor in enumerate(anchors)]


def _compile(anchor: Anchor, field: str, limits: Limits) -> AnchorCheck:
    if not anchor.keys or not all(anchor.keys):
        raise _invalid(f"{field}.keys", "give at least one key, none of them empty")
    if any(len(key) > limits.max_key_chars for key in anchor.keys):
        raise _invalid(f"{field}.keys", f"a key may have {limits.max_key_chars} characters")
    if anchor.pointer.count("/") > MAX_POINTER_NAMES:
        raise _invalid(f"{field}.pointer", f"a pointer may have {MAX_POINTER_NAMES} names")
    try:
        return AnchorCheck(anchor)
    except ValueError as error:
        raise _invalid(f"{field}.pointer", str(error)) from None


def _invalid(field: str, message: str) -> Refusal:
    return Refusal("INVALID_ANCHOR", message, field=field)


def _subject(pointer: str) -> str:
    return pointer or "the value"
