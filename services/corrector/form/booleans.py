# ruff: noqa: E501, SIM905  tables of words are easier to read in long lines
"""Words for true, false and nothing."""

from __future__ import annotations

import re
import unicodedata

_TRUE = frozenset(
    "true t yes y yeah yep on 1 1.0 enabled enable active ok okay correct right checked affirmative positive si oui ja da hai "
    "是 是的 要 对 对的 真 有 开 开启 启用 已启用 √ ✓ ✔ ☑ ✅ 可 可以 正确 同意 确认 .t. 为真 必须 需要 支持 允许 有效".split()
)
_FALSE = frozenset(
    "false f no n nope nah off 0 0.0 disabled disable inactive incorrect wrong unchecked negative non nein nyet iie "
    "否 不 不是 非 错 错误 假 无 没有 关 关闭 停用 禁用 未启用 × ✗ ✘ ✕ ☐ ❌ 不可 不可以 没 不对 .f. 为假 不需要 不用 无需 不要 不必 不支持 不允许 无效 不同意".split()
)
_SURE = frozenset(
    "true t yes y on 1 false f no n off 0 是 否 真 假 对 错 有 无 √ × ✓ ✗ ✔ ✘ ✅ ❌ 1.0 0.0 enabled disabled active inactive 是的 不是 没有 "
    "开 关 开启 关闭 启用 停用 禁用 yeah nope yep checked unchecked 对的 不 支持 不支持 需要 不需要 不用 无需 不要 可以 不可以 ja nein oui non".split()
)
_NOTHING = frozenset(
    "none null nil n/a na nan - -- — / 无 空 暂无 没有 不详 未知 undefined missing unknown not_available #n/a tbd 未填 (none) <null> nul 待定".split()
) | {
    "",
    "not available",
    "not applicable",
    "not specified",
    "not provided",
    "未提供",
    "不适用",
}
_SURE_NOTHING = frozenset("none null nil n/a na - -- — 无 空 暂无 undefined #n/a".split()) | {
    "",
    "不适用",
    "not applicable",
}
_TAIL = re.compile(r"[,，.。 ]+(?:please|thanks|thank you|谢谢)$|\ufe0f$")
"""What is polite, and the mark that makes a picture of a sign."""


def _bare(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().strip(" \t\r\n.!。！,;\"'`“”*")


def read_boolean(text: str) -> tuple[bool, float] | None:
    bare = _TAIL.sub("", _bare(text)) or text.strip()
    if bare in _TRUE:
        return True, 0.9 if bare in _SURE else 0.7
    if bare in _FALSE:
        return False, 0.9 if bare in _SURE else 0.7
    if len(bare) >= 2 and bare[0] in "已未" and len(bare) <= 6:
        return bare[0] == "已", 0.65
    return None


def reads_as_nothing(text: str) -> float:
    """How sure a word says that there is nothing; 0 if it does not."""
    bare = unicodedata.normalize("NFKC", text).casefold().strip(" \t\r\n.\"'`*")
    return 0.85 if bare in _SURE_NOTHING else 0.65 if bare in _NOTHING else 0.0
