"""Compare an object with the prose that it was made from: what is confirmed, what should be something else.

A value is confirmed where the source has it and nothing else can stand there: it is the only mention that fits, or the
words beside it are those of its field and of no other. A value of another place is proposed on the same evidence. What
the source merely has somewhere is doubted: two such values may have changed places.
"""

from __future__ import annotations

from services.corrector.content.arrays import array_of, judge_arrays
from services.corrector.content.closed import judge_boolean, judge_choice
from services.corrector.content.evidence import Source
from services.corrector.content.fields import MAX_FIELDS, Field, Sort, empty_arrays, fields, optional_missing
from services.corrector.content.judgement import SURE, Judgement
from services.corrector.content.mentions import folded, mentions
from services.corrector.content.objections import Objections
from services.corrector.content.searched import judge_searched
from services.corrector.proposals import ABSENT, Doubt, Findings, Problem

MAX_SOURCE_CHARS = 20_000


def judge(problem: Problem) -> Findings:
    """What the source says about the object. Deterministic, bounded, without a model."""
    if not problem.source.strip() or problem.value is ABSENT:
        return Findings()
    if len(problem.source) > MAX_SOURCE_CHARS:
        return Findings(doubts=(Doubt(pointer="", reason="the source is too long to compare with"),))
    every = fields(problem.schema, problem.value)
    if len(every) > MAX_FIELDS:
        return Findings(doubts=(Doubt(pointer="", reason="there are too many values to compare with the source"),))
    text = folded(problem.source)
    source = Source(text, mentions(text))
    filled = frozenset(problem.changed)
    found = Judgement(filled=filled, speaks_against=Objections(every, source, filled).against)
    judge_arrays(problem.value, [known for known in every if array_of(known) is not None], source, found)
    plain = [known for known in every if array_of(known) is None]
    judge_searched([known for known in plain if known.sort not in (Sort.CHOICE, Sort.BOOLEAN)], source, found)
    for pointer in empty_arrays(problem.value):
        found.doubt(pointer, "nothing in the source says that there are none")
    for known in plain:
        if known.sort is Sort.CHOICE:
            judge_choice(known, source, found)
        elif known.sort is Sort.BOOLEAN:
            judge_boolean(known, source, found)
    confirmed = tuple(known.pointer for known in every if known in found.confirmed)
    return Findings(
        proposals=tuple(found.proposals),
        doubts=tuple(found.doubts),
        confirmed=confirmed,
        settles_all=_settles_all(problem, every, found),
    )


def _settles_all(problem: Problem, every: list[Field], found: Judgement) -> bool:
    """Whether nothing is open, and nothing that the object may have beyond what it must is missing."""
    proposed = {proposal.pointer for proposal in found.proposals if proposal.confidence >= SURE}
    if _ends_within(problem, every, found):
        return False
    settled = all(known in found.confirmed or _is_within(known.pointer, proposed) for known in every)
    return settled and not found.doubts and not optional_missing(problem.schema, problem.value)


def _ends_within(problem: Problem, every: list[Field], found: Judgement) -> bool:
    """Whether the text was cut within a text that goes on in the source: 杨志 of 杨志强."""
    if problem.text.rstrip().endswith(("}", "]", "`")):
        return False
    own = [known for known in every if known.value is not ABSENT and known.pointer not in found.filled]
    if not own or own[-1].sort is not Sort.TEXT:
        return False
    text = folded(problem.source)
    spans = Source(text, []).find(str(own[-1].value))
    return all(text[end : end + 1].isalnum() for _, end in spans)


def _is_within(pointer: str, proposed: set[str]) -> bool:
    return any(pointer == known or pointer.startswith(f"{known}/") for known in proposed)
