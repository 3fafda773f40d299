"""Values that must be keys of a reference set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from services.corrector.form.edits import Guess
from services.corrector.form.lookalikes import is_rival, keys_like, looks_like
from services.corrector.form.shape import Shape
from services.corrector.form.slips import is_contrary, is_denied_in, is_id_slip, is_slip
from services.corrector.form.source import Source
from stagemesh.validation.anchor_match import Match
from stagemesh.validation.anchors import Anchor, Keys, compile_keys, form_of
from stagemesh.validation.json_text import BadJson, dump, parse
from stagemesh.validation.limits import Limits
from stagemesh.validation.pointer import Path, parse_pointer

MIN_PREFIX_CHARS = 3


class AnchoredKeys:
    """The anchors of a request, by the places to which they point."""

    def __init__(self, anchors: Sequence[Anchor], limits: Limits) -> None:
        self._keys = [
            (parse_pointer(anchor.pointer), compile_keys(anchor, f"anchors[{index}]", limits))
            for index, anchor in enumerate(anchors)
        ]

    def at(self, path: Path) -> Keys | None:
        for names, keys in self._keys:
            if len(names) == len(path) and all(map(_leads_to, names, path)):
                return keys
        return None


def _leads_to(name: str, step: str | int) -> bool:
    return name == str(step) or (name == "*" and isinstance(step, int))


def key_guesses(value: Any, keys: Keys, shape: Shape, source: Source, *, is_cut: bool) -> list[Guess] | None:
    """Keys that a value may mean; None where it is one. Several of equal confidence: it cannot be known which."""
    text = value if isinstance(value, str) else dump(value)
    found = keys.lookup(text)
    if found.match is Match.EXACT:
        return None
    alike = keys_like(text, keys)
    if alike and (guesses := _like(text, alike, found.keys, shape, source)):
        return guesses
    if found.match is Match.NEAR:
        return [_guess(text, found.keys[0], shape)]
    if found.match is Match.AMBIGUOUS:
        return _one_of(found.keys, shape, source, "one of several keys that are equally near")
    return _held(text, keys, shape, source, is_cut=is_cut)


def _like(text: str, alike: Sequence[str], near: Sequence[str], shape: Shape, source: Source) -> list[Guess]:
    """The one key that a value with look-alike characters means, or those that it may mean."""
    rivals = [key for key in near if key not in alike]
    is_like = len(alike) == 1 and looks_like(text, alike[0])
    if is_like and not any(is_rival(text, alike[0], key) for key in rivals):
        return [Guess(_typed(alike[0], shape), "the key in characters that look like its own", 0.9, "anchor")]
    if len(alike) > 1 or rivals:
        return _one_of([*alike, *rivals], shape, source, "one of several keys that look like it")
    return []


def _one_of(keys: Sequence[str], shape: Shape, source: Source, reason: str) -> list[Guess]:
    said = [key for key in keys if source.holds(key)]
    if len(said) == 1:
        return [Guess(_typed(said[0], shape), "the key that stands in the source", 0.85, "anchor")]
    return [Guess(_typed(key, shape), reason, 0.4, "anchor") for key in keys]


def _guess(text: str, key: str, shape: Shape) -> Guess:
    form, other = form_of(text).casefold(), form_of(key).casefold()
    if form == other:
        return Guess(_typed(key, shape), "the key in another form", 0.9, "anchor")
    if is_contrary(form, other):
        return Guess(_typed(key, shape), "the only key near it, which may say the contrary", 0.4, "anchor")
    sure = is_id_slip(form, other) or is_slip(form, other, is_name=True)
    return Guess(_typed(key, shape), "the only key one character away", 0.85 if sure else 0.65, "anchor")


def _held(text: str, keys: Keys, shape: Shape, source: Source, *, is_cut: bool) -> list[Guess]:
    """Keys that are a part of the value, or of which a cut value is the beginning."""
    some = keys.some(2_000)
    form = form_of(text).casefold()
    same = [key for key in some if form_of(key).casefold() == form]
    if len(same) == 1:
        is_only = len(some) == len(keys)
        return [Guess(_typed(same[0], shape), "the key in another case", 0.85 if is_only else 0.7, "anchor")]
    if is_cut and len(form) >= MIN_PREFIX_CHARS:
        begun = [key for key in some if form_of(key).casefold().startswith(form)]
        if len(begun) == 1 and len(some) == len(keys):
            return [Guess(_typed(begun[0], shape), "the only key that begins so", 0.85, "anchor")]
    within = [key for key in some if len(key) >= MIN_PREFIX_CHARS and form_of(key).casefold() in form]
    longest = max(within, key=len, default="")
    if within and all(key in longest for key in within) and not is_denied_in(form, form_of(longest)):
        return [Guess(_typed(longest, shape), "the key with something around it", 0.7, "anchor")]
    return []


def _typed(key: str, shape: Shape) -> Any:
    """A key as the number that it spells, where the schema asks for one."""
    if "string" in shape.types:
        return key
    try:
        return parse(key, max_depth=1)
    except BadJson:
        return key
