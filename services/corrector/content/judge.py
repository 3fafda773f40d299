"""Compare an object with the prose that it was made from: what is confirmed, what should be something else.

A value is confirmed where the source has it and nothing else can stand there: it is the only mention that fits, or the
words beside it are those of its field and of no other. A value of another place is proposed on the same evidence. What
the source merely has somewhere is doubted: two such values may have changed places.
"""

from __future__ import annotations

from services.corrector.content.arrays import array_of, judge_arrays
from services.corrector.content.closed import judge_boolean, judge_choice
from services.corrector.content.evidence import Source
from services.corrector.content.fields import MAX_FIELDS, Sort, fields
from services.corrector.content.judgement import Judgement
from services.corrector.content.mentions import folded, mentions
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
    source, found = Source(text, mentions(text)), Judgement(filled=frozenset(problem.changed))
    judge_arrays(problem.value, [known for known in every if array_of(known) is not None], source, found)
    plain = [known for known in every if array_of(known) is None]
    judge_searched([known for known in plain if known.sort not in (Sort.CHOICE, Sort.BOOLEAN)], source, found)
    for known in plain:
        if known.sort is Sort.CHOICE:
            judge_choice(known, source, found)
        elif known.sort is Sort.BOOLEAN:
            judge_boolean(known, source, found)
    confirmed = tuple(known.pointer for known in every if known in found.confirmed)
    return Findings(proposals=tuple(found.proposals), doubts=tuple(found.doubts), confirmed=confirmed)
