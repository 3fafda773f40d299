"""Where a source speaks of something else than the matter itself, or not of a value."""

from __future__ import annotations

import re
from collections.abc import Iterator

_OF_OTHERS = re.compile(
    r"\b(?:previous|previously|earlier|last|prior|former|formerly|old|original|originally|past|instead of|rather "
    r"than|not|unlike|similar|unrelated|other|another|next|estimated|estimate|quoted|expected|planned|draft|"
    r"down from|up from|was "
    r"changed from|average|ago|competitors?|neighbou?rs?|colleagues?|co-?workers?|target|ideal|recommended|"
    r"for example|for instance|such as|"
    r"permitted|normal)\b"
    r"|例如|比如|目标|理想|建议|标准|正常值|限[重高速]|额定|竞争对手|同行|同事|他人|别人|邻居|上周|上个月|上季度|前年|当年|往年|"
    r"此前|之前|上次|上一|上月|去年|原(?!因|料|材|则|子)|旧|以前|曾|前一|并非|而非|不是|其他|另(?:一|有)|预计|"
    r"估计|平均",
    re.IGNORECASE,
)
"""Words after which a source speaks of something that is not the matter itself."""
REMARK = 40
"""How far back such a word is looked for."""
_DENIED = re.compile(
    r"^[^,，]{0,60}?\b(?:is|are|was|were|has been|have been|remains?)\s+(?:"
    r"(?:not|never)\s+(?:affected|concerned|included|covered|related|part)|"
    r"un(?:affected|related|changed)|void|cancell?ed|withdrawn|superseded|obsolete)\b|"
    r"^[^,，]{0,20}?(?:不受影响|与此无关|与本(?:次|单|案)?无关|不涉及|已?作废|已取消)",
    re.IGNORECASE,
)
"""Words behind a place that say that nothing is told of it here."""
_OTHER_PART = re.compile(
    r"\b(?:previous|prior|earlier|former|old|original|draft|last|other|another|cancell?ed|void|superseded|example|"
    r"template|history|archived?)\b|上次|上一|此前|之前|以前|原(?!因|料|材|则)|旧|去年|上月|另一|其他|作废|取消|草稿|示例|历史",
    re.IGNORECASE,
)
"""In a line that tells nothing itself: what follows is of something else."""
_NO_VALUE = re.compile(
    r"(?:\b(?:annex|appendix|attachment|page|section|clause|article|chapter|figure|table|step|paragraph|version|"
    r"between|about|approx(?:\.|imately)?|around|roughly|nearly|almost|more than|less than|fewer than|at least|at most|"
    r"up to|over|under|some)|附件|附录|第|版本|约|大约|大概|近|超过|不到|不足|至少|至多|最多|最少)\s*"
    r"(?:(?:USD|EUR|GBP|CNY|RMB|US\$|[$€£¥]|人民币)\s*)?$",
    re.IGNORECASE,
)
"""Before a number that is a reference, or not the exact one."""


def is_of_others(before: str) -> bool:
    """Whether the words before a place, in its sentence, say that it is of something earlier, other or denied."""
    return _OF_OTHERS.search(before) is not None


def is_denied(after: str) -> bool:
    """Whether the words behind a code, in its sentence, say that it is not what is spoken of."""
    return _DENIED.search(after) is not None


def is_no_value(before: str) -> bool:
    """Whether a number behind these words is a reference, or not the exact one."""
    return _NO_VALUE.search(before) is not None


def other_parts(text: str) -> Iterator[tuple[int, int]]:
    """From a line that only says that something else follows to the next empty line."""
    at = 0
    for line in text.split("\n"):
        bare = line.strip().rstrip(":：").strip("#*= -")
        is_heading = 0 < len(bare) <= 60 and not re.search(r"\d|[:：]\s*\S|[.。!！?？]$", line.strip())
        if is_heading and "\n" in text and _OTHER_PART.search(bare):
            end = text.find("\n\n", at + len(line) + 2)
            yield at, end if end >= 0 else len(text)
        at += len(line) + 1
