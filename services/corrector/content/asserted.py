"""Whether a source asserts what a word of it says, denies it, or leaves it open: asks, demands, expects, supposes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from services.corrector.content.evidence import Source, Span
from services.corrector.content.labels import Label, occurrences

_CLAUSE = re.compile(
    r"[,.;!?，。；！？\n()（）|]|(?<!anything )(?<!nothing )(?<!all )\bbut\b|"
    r"\band\b(?= (?:the|it|we|they|he|she|i)\b)|但"
)
_QUESTION = frozenset("?？")
_SUPPOSED = re.compile(
    r"\b(?:if|unless|whether|once|when|whenever|until|till|provided|in case|should|suppose[ds]?|for example|e\.g)\b|"
    r"如果|假如|倘若|若(?!干)|如(?![上下图何])|是否|与否|能否|可否|除非|一旦",
    re.IGNORECASE,
)
"""Before a clause or in it, within its sentence."""
_OPEN = re.compile(
    r"\b(?:should|would|could|may|might|must|shall|will|can|cannot|can['’]t|won['’]t|need(?:s|ed)? to|ought|to be|"
    r"to get|to have|to become|yet to|going to|about to|plan\w*|intend\w*|please(?! note)|seems?|appears?|apparently|"
    r"supposedly|allegedly|probably|possibly|perhaps|maybe|likely|almost|nearly|partly|partially|half|only|except|"
    r"far from|anything but|hardly|barely|scarcely|less|more|than|n/a|tbc|tbd|pending|last|previous|previously|old|"
    r"other|another|former|formerly|earlier|instead|rather|either|soon|next|tomorrow|later|used to|no longer|"
    r"hop(?:e|es|ed|ing)|doubts?|claims? (?:to|that)|claimed to|says?|said|asks?|asked|thinks?|believes?|assum\w+|"
    r"expect\w*|wish\w*|wants?|den(?:y|ies|ied)|false|unclear|unknown|unsure|not (?:sure|certain|clear)|to (?:confirm|"
    r"check|verify)|tell|try|tries|would|not (?:only|just|yet|until|necessarily)|nothing$|nobody$|as if|or)\b|"
    r"不确定|待[定确核查]|可能|也许|大概|仅|只|除了|待(?!遇)|(?<!申)请|须|(?<![供反适相])应|将|拟|预计|计划|希望|尽快|尽早|原(?![因料材则])|上次|以前|之前|曾|本来|或|其他|另|吗|差点|几乎",
    re.IGNORECASE,
)
"""In the clause itself."""
_NOT = re.compile(
    r"\b(?:not|never|no|non|without|nobody|no one|none|nothing|neither|nor)\b|n['’]t\b|"
    r"不|未|没有?|无|非|免|勿|别|否|禁止|拒绝",
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"(?:\b(?:not|never|no|non|without|nobody|no one|none|nothing|neither)\b|n['’]t\b)(?:[ -][\w'’]+){0,3}[ -]?$|"
    r"(?:不|未|没有?|无|非|免|勿|别|否|禁止|拒绝)[\u4e00-\u9fff]{0,4}$",
    re.IGNORECASE,
)
_ANSWER = re.compile(r"\s*[:：?？]\s*(yes|true|y|no|false|n|是|有|否|无)\s*(?:[,.;，。；\n]|$)", re.IGNORECASE)
"""Behind the label of a form."""
_YES = frozenset({"yes", "true", "y", "是", "有"})
_ADVERB = (
    r"(?:(?:already|fully|now|also|all|very|highly|entirely|indeed|therefore|thus|both|quite|completely|extremely|duly|"
    r"then|still|really|clearly|marked|of|to|as|for|a|an|the|this)\s+)*"
)
_PREDICATE = re.compile(
    rf"(?:\b(?:is|are|was|were|been|has|have|had|got|stays?|remains?|includes?|including|included|incl\.|with|contains?|"
    rf"offers?|requires?|needs?|requested|ordered|considered|classed|declared)|['’](?:s|re|ve))\s+{_ADVERB}$",
    re.IGNORECASE,
)
_BARE = re.compile(rf"^\W*{_ADVERB}$", re.IGNORECASE)
_DONE = re.compile(r"(?:ed|paid|sent|met|sold|made|held|kept|bought)$")
_OBJECT = re.compile(r"\s+(?:the|this|it|all|everything|by|on|via|with|in|[€$£]?\d)", re.IGNORECASE)
_ENDS = re.compile(
    r"\s*(?:$|[,.;:!?)\]，。；！？）\n|、—–-])|"
    r"\s+(?:in|on|by|at|for|to|with|since|as|and|from|via|of|per|within|today|yesterday|already|now|because|so|here|"
    r"needed|required|included|requested|available|"
    r"(?:is|are|was|were|has been|have been) (?:\w+ly )?(?:needed|required|included|requested|available|received|made|"
    r"done|allowed|permitted|confirmed|given|ordered|provided|booked))\b|"
    r"[了于并且完及和与在至到]|的(?=$|[,.;，。；！\n）)])",
    re.IGNORECASE,
)
_LABEL = re.compile(r"[^,;.，；。\n]{0,16}[:：]")
_GOVERNED = re.compile(
    r"(?:\b(?:by|in|via|with|as|per|is|was|are|be|to|from|for|at|of)\s+(?:(?:a|an|the)\s+)?(?:[\w-]+\s)?|[:：(（])\s*$",
    re.IGNORECASE,
)
"""Before a choice that is a thing: in cash, by bank transfer."""
_NEITHER = re.compile(r"\b(?:neither|nor|instead of|rather than|unlike)\b|并非|而非|不是", re.IGNORECASE)
_OTHER_TIME = re.compile(r"\b(?:last|previous|previously|former|formerly|earlier)\b|上次|以前|此前", re.IGNORECASE)
_HAN = re.compile(r"[\u4e00-\u9fff]")


def answer(source: Source, span: Span) -> bool | None:
    """What a form says behind a label."""
    said = _ANSWER.match(source.text, span[1])
    return None if said is None else said[1].lower() in _YES


def asserted(source: Source, span: Span) -> bool | None:
    """Whether the statement of the word at a place holds; None where the source leaves it open."""
    if (said := answer(source, span)) is not None:
        return said
    text = source.text
    start, end = source.sentence(span)
    if text[end : end + 1] in _QUESTION or re.match(r"\s*[:：\[☐☑☒□]", text[span[1] : span[1] + 3]):
        return None
    before = text[start : span[0]]
    clause = _CLAUSE.split(before)[-1]
    after = text[span[1] : end]
    rest = _CLAUSE.split(after)[0]
    if source.is_in_other_part(span) or _SUPPOSED.search(before) or _SUPPOSED.search(rest):
        return None
    if _OPEN.search(clause) or _OPEN.search(rest):
        return None
    if not _ENDS.match(after) and not (_DONE.search(text[slice(*span)]) and _OBJECT.match(after)):
        return None
    if _NOT.search(rest):
        return None
    denials = len(_NOT.findall(clause))
    if denials:
        return False if denials == 1 and _DENIED.search(clause) else None
    if _HAN.match(text[span[0]]):
        return True
    if _PREDICATE.search(clause) or _BARE.match(clause):
        return True
    return True if _DONE.search(text[slice(*span)]) and _OBJECT.match(after) else None


def told_as_choice(source: Source, span: Span, own: Sequence[Label], *, is_state: bool) -> bool | None:
    """Whether a word names what is the case; None where it is only asked, supposed or, of a state, demanded.

    `own`: the words of the field. `is_state`: it says what has become of something, like approved, and stands as well
    where that is not said of it.
    """
    text = source.text
    start, end = source.sentence(span)
    before, after = text[start : span[0]], text[span[1] : end]
    clause, rest = _CLAUSE.split(before)[-1], _CLAUSE.split(after)[0]
    if text[end : end + 1] in _QUESTION or source.is_in_other_part(span) or _SUPPOSED.search(before):
        return None
    if _LABEL.match(after):
        return None
    if _DENIED.search(clause) or _NEITHER.search(clause) or _OTHER_TIME.search(clause):
        return False
    if not is_state:
        is_thing = text[span[0] : span[1]].islower() and text[span[0]].isascii()
        around = f"{clause}|{rest}".lower()
        return True if not is_thing or _GOVERNED.search(clause) or occurrences(own, around) else None
    if _OPEN.search(clause) or _OPEN.search(rest) or _NOT.search(rest) or not _ENDS.match(after):
        return None
    return True
