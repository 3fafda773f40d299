"""Hold a regenerated answer to the one before: a model that is asked to correct one value likes to change others."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from services.corrector.changes import MAX_CHANGES, REGENERATED, UNASKED, Change, differences, merged, whole
from services.corrector.repair import Repair
from stagemesh.validation.json_text import dump, parse
from stagemesh.validation.pointer import Path, replaced, to_pointer
from stagemesh.validation.verdict import Severity, Verdict

MAX_DEPTH = 1_000
PRESENCE = frozenset({"required", "additionalProperties", "unevaluatedProperties", "minProperties", "maxProperties"})
"""Rules about which members an object has; they say nothing against the members' values."""


def kept_where_sound(last: Repair, renewed: Repair) -> str | None:
    """JSON of the new value with the last one's values where nothing was wrong with them; None if that is no other."""
    if not last.verdict.value or not renewed.verdict.value:
        return None
    before, after = _value(last.verdict), _value(renewed.verdict)
    kept = after
    for path, old, new in differences(before, after):
        if old and new and not _reasons(last.verdict, path):
            kept = replaced(kept, path, _at(before, path))
    text = dump(kept)
    return None if text == dump(after) else text


def regeneration_changes(last: Repair, renewed: Repair, original: str) -> Iterator[Change]:
    """What the regeneration did to the last state, after what the repair had done to the original."""
    if not last.verdict.value or not renewed.verdict.value:
        reasons = "; ".join(issue.message for issue in last.verdict.issues[:3])
        yield whole(original, renewed.text, f"answered again, because {reasons}", REGENERATED, "regenerate")
        return
    found = list(islice(differences(_value(last.verdict), _value(renewed.verdict)), MAX_CHANGES + 1))
    if len(found) > MAX_CHANGES:
        yield whole(original, renewed.text, "answered again, with too many changes to list", UNASKED, "regenerate")
        return
    changes = [_change(last.verdict, path, old, new) for path, old, new in found]
    yield from merged([*last.changes, *changes])


def _change(verdict: Verdict, path: Path, old: str, new: str) -> Change:
    reasons = _reasons(verdict, path, presence=not old or not new)
    return Change(
        pointer=to_pointer(path),
        before=old,
        after=new,
        reason="; ".join(reasons[:3]) or "changed by the model although nothing was said against it",
        confidence=REGENERATED if reasons else UNASKED,
        step="regenerate",
    )


def _reasons(verdict: Verdict, path: Path, *, presence: bool = False) -> list[str]:
    """What was said against the value at `path`, something in it, or something that it is part of."""
    place = f"{to_pointer(path)}/"
    reasons = []
    for issue in verdict.issues:
        within = f"{issue.pointer}/".startswith(place)
        around = place.startswith(f"{issue.pointer}/") and (presence or issue.rule not in PRESENCE)
        if issue.severity is Severity.ERROR and (within or around):
            reasons.append(issue.message)
    return reasons


def _value(verdict: Verdict) -> Any:
    return parse(verdict.value, max_depth=MAX_DEPTH)


def _at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value
