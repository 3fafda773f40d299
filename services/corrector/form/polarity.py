"""Words for a state where true or false is asked for: `enabled` says false of a field that is named `disabled`."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

UNSURE = 0.6
INVERTED = 0.85


NAMELESS = frozenset({"on", "off", "ok", "right", "live"})
"""Words that say something else in names."""


@dataclass(frozen=True)
class State:
    """Two sets of words of which one says the contrary of the other."""

    positive: frozenset[str]
    negative: frozenset[str]


def _state(positive: str, negative: str) -> State:
    return State(frozenset(positive.split()), frozenset(negative.split()))


STATES = (
    _state(
        "enabled enable active on live valid ok okay 启用 已启用 开启 开 有效 生效 正常",
        "disabled disable inactive off invalid 停用 禁用 未启用 关闭 关 无效 失效",
    ),
    _state("correct right 正确 对 对的", "incorrect wrong 错误 错 不对"),
    _state("有", "无 没有 没"),
    _state("需要 要 必须", "不需要 不用 无需 不要 不必"),
    _state("可 可以 允许 支持 同意", "不可 不可以 不允许 不支持 不同意"),
)
_NEGATED = re.compile(
    r"\b(?:not|no|non|never|without|un(?:available|paid|read|used|verified|confirmed|signed|safe|approved|published))\b"
    r"|[无未非不没]"
)
_CONTRARY = re.compile(
    r"\b(?:expired|blocked|locked|frozen|banned|suspended|archived|deleted|closed|muted|paused|revoked|cancell?ed|terminated|"
    r"retired|obsolete|deprecated|hidden|out|off|offline|dead|overdue|blacklisted|stopped|broken|empty|vacant|absent|missing|"
    r"free|exempt|unsubscribed|resigned|left)\b|过期|冻结|封|锁|注销|作废|删除|关闭|停|禁|失效|逾期|终止|隐藏|离|缺|免|空|断|退出"
)
"""Names of fields that are true where something does not work, is not there, or not any more."""
_TROUBLES = re.compile(r"\b(?:errors?|faults?|fail(?:ed|ure)?|defects?)\b|故障|异常|错误|缺陷")
"""Names of what one may have, though it is better to have none."""
_HAVING = STATES[2].positive | STATES[2].negative
_SWITCHED = frozenset({"on", "off", "开", "关", "ok", "okay"})
"""Words that may speak of the field itself: `disabled: on`."""
_WHOLE = frozenset(
    {"active", "inactive", "live", "valid", "invalid", "有效", "无效", "生效", "失效", "正常", "ok", "okay"}
)
"""Words for how a thing is, rather than whether a field applies: `resigned: active`."""


def agreed(word: str, value: bool, confidence: float, name: str) -> tuple[bool, float]:
    """What a word that says `value` means for the field of that name, and how sure that is."""
    bare = unicodedata.normalize("NFKC", word).casefold().strip(" .!。！,，;；")
    states = [state for state in STATES if bare in state.positive | state.negative]
    if not states or not name:
        return value, confidence
    told = _words(name)
    if _NEGATED.search(told):
        return value, UNSURE
    for state in states:
        says = bare in state.positive
        if _names(told, state.negative):
            return not says, UNSURE if bare in _SWITCHED else min(confidence, INVERTED)
        if _names(told, state.positive):
            return says, confidence
    is_contrary = _CONTRARY.search(told) or (bare not in _HAVING and _TROUBLES.search(told))
    return value, UNSURE if is_contrary or bare in _WHOLE else confidence


def _words(name: str) -> str:
    """A name as words: `isInactive` → `is inactive`."""
    return re.sub(r"[_\-\s]+", " ", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)).lower()


def _names(told: str, words: frozenset[str]) -> bool:
    latin = told.split()
    return any(
        word in latin and word not in NAMELESS if word.isascii() else len(word) > 1 and word in told for word in words
    )
