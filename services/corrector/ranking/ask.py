"""From a repaired text with doubts to questions that a model can be asked. Runs in the sandbox."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from services.corrector.content.arrays import array_of
from services.corrector.content.contested import is_contested
from services.corrector.content.endings import is_whole
from services.corrector.content.evidence import Place, Span
from services.corrector.content.fields import MAX_FIELDS, Field, Sort, fields
from services.corrector.content.judge import MAX_SOURCE_CHARS
from services.corrector.content.mentions import folded, mentions
from services.corrector.content.turns import tells_change
from services.corrector.proposals import ABSENT, Problem
from services.corrector.ranking.candidates import Everything, is_text, places, values_of
from services.corrector.ranking.question import Candidate, Question, key_of
from services.corrector.repair import DOUBT

MAX_QUESTIONS = 16
MAX_CANDIDATES = 6
MAX_WORDINGS = 2
MAX_WORDS = 80
"""Characters of a candidate; longer texts are told too rarely in the same words."""
SEARCHED = frozenset({Sort.NUMBER, Sort.DATE, Sort.EMAIL, Sort.PHONE, Sort.CODE, Sort.TEXT})


def ask(problem: Problem) -> tuple[Question, ...]:
    """About every value in doubt that a source can be searched for; none where there are too many."""
    if not problem.source.strip() or problem.value is ABSENT or len(problem.source) > MAX_SOURCE_CHARS:
        return ()
    every = fields(problem.schema, problem.value)
    doubted = {issue.pointer for issue in problem.issues if issue.rule == DOUBT}
    wanted = [known for known in every if known.sort in SEARCHED and array_of(known) is None]
    open_ones = [known for known in wanted if known.pointer in doubted.union(problem.unsure)]
    if not open_ones or len(open_ones) > MAX_QUESTIONS or len(every) > MAX_FIELDS:
        return ()
    text = folded(problem.source)
    source = Everything(text, mentions(text))
    settled = [known for known in wanted if known not in open_ones]
    asked = [_question(known, wanted, settled, source, problem.changed) for known in open_ones]
    return tuple(question for question in asked if question is not None)


def _question(
    known: Field, wanted: Sequence[Field], settled: Sequence[Field], source: Everything, changed: Sequence[str]
) -> Question | None:
    found = places(known, wanted, source)
    if not found or is_contested(known, found, source):
        return None
    if any(tells_change(known, place.span, source) for place in found):
        return None
    taken = [span for other in settled for span in source.stated(other)]
    kept = _kept([one for one in _candidates(known, found, taken, source) if one.words], known)
    if not kept:
        return None
    present = [at for at, one in enumerate(kept) if key_of(one.value) == key_of(known.value)]
    title = known.shape.keywords.get("title")
    return Question(
        pointer=known.pointer,
        name=known.name,
        title=title if isinstance(title, str) else "",
        sort=known.sort.value,
        candidates=tuple(kept),
        present=present[0] if present else -1,
        is_missing=known.value is ABSENT,
        may_change=known.pointer not in changed,
    )


def _candidates(known: Field, found: Sequence[Place], taken: Sequence[Span], source: Everything) -> Iterator[Candidate]:
    for same in values_of(found).values():
        words = dict.fromkeys(source.text[slice(*place.span)].strip() for place in same)
        yield Candidate(
            value=same[0].value,
            words=tuple(each for each in words if len(each) <= MAX_WORDS)[:MAX_WORDINGS],
            num_places=len(same),
            is_open_ended=is_text(known) and not any(is_whole(source.text, *place.span) for place in same),
            is_barred=all(_overlaps(place.span, taken) or source.is_of_others(place.span) for place in same),
        )


def _overlaps(span: Span, taken: Sequence[Span]) -> bool:
    """Whether a value of a settled field stands there, which is this one or of which this one is a part."""
    return any(start <= span[0] and span[1] <= end for start, end in taken)


def _kept(candidates: list[Candidate], known: Field) -> list[Candidate]:
    """The first ones, and the present value."""
    own = [one for one in candidates if key_of(one.value) == key_of(known.value)]
    others = [one for one in candidates if one not in own]
    return [*own, *others][:MAX_CANDIDATES]
