"""Texts that must not come near a system prompt, whatever they are said to be.

What passes here is still only quoted in the prompt, after the operator's own words and below them. This list keeps out
what tries to be more than a wish: orders about the instructions themselves, other roles, secrets, markup of prompts.
"""

from __future__ import annotations

import re
import unicodedata

_RULES = {
    "overrides instructions": (
        r"\b(?:ignor|disregard|forget|overrid|overrul|bypass|circumvent|violat|break|skip|drop|replac)\w*\b.{0,60}"
        r"\b(?:instruction|prompt|rule|polic|guideline|restriction|constraint|limit|above|previous|prior|system"
        r"|safety|filter|operator|everything)",
        r"\b(?:never|not|don'?t|stop|refuse)\b.{0,20}\b(?:follow|obey|respect|comply|listen)",
        r"(?:忽略|无视|忘记|忘掉|覆盖|绕过|违反|不理会|不遵守|不要遵守|跳过|突破|推翻).{0,16}"
        r"(?:指令|指示|提示|规则|规定|设定|要求|限制|系统|以上|之前|前面|上面|政策|约束|安全|一切|所有)",
    ),
    "takes another role": (
        r"\byou(?: are|'re) (?:now|no longer|not an? (?:ai|assistant))\b",
        r"\b(?:act|behave|pretend|pose|respond|answer|speak) (?:as|like|to be|as if)\b.{0,30}"
        r"\b(?:admin\w*|root|developer|operator|system|dan|unrestricted|unfiltered|evil|human)\b",
        r"\b(?:jailbreak|do anything now|developer mode|god mode|sudo|unrestricted|unfiltered|uncensored)\b",
        r"\bno (?:restrictions|rules|limits|filters?|guidelines)\b",
        r"你现在是|你不再是|扮演|假装|伪装|冒充|越狱|开发者模式|管理员(?:模式|身份|权限)|不受.{0,6}(?:限制|约束)",
    ),
    "asks for what is secret": (
        r"\b(?:system|developer|hidden|secret|initial|original) (?:prompt|message|instruction)s?\b",
        r"\b(?:passwords?|passphrase|api[ _-]?keys?|secret keys?|credentials?|access tokens?|private keys?)\b",
        r"\b(?:other|another|all|every) (?:user|tenant|customer|client)(?:s|'s|s')?\b.{0,30}"
        r"\b(?:data|information|session|message|conversation|record|order|secret|address)",
        r"系统(?:提示|消息|指令|设定)|提示词|密码|密钥|口令|令牌|(?:其他|别的|所有)(?:用户|租户|客户).{0,10}(?:数据|信息|会话|订单|记录)",
    ),
    "holds markup of a prompt": (
        r"<\||\|>|</?[a-z][^>]*>|\[/?inst\]|<<|>>|```|#{3,}|\{\{|\}\}|\{%",
        r"(?:^|[\s\"'])(?:system|assistant|developer|user|tool|human|ai)\s*[:：]",
        r"(?:系统|助手|开发者|用户)\s*[:：]",
        r"https?://|data:|javascript:|\bwww\.",
    ),
}
_COMPILED = tuple(
    (reason, re.compile(pattern, re.IGNORECASE)) for reason, patterns in _RULES.items() for pattern in patterns
)


def hostility(text: str) -> str:
    """Why `text` is refused; empty when it is not."""
    folded = _folded(text)
    spaced = re.sub(r"[\s_.\-*~]+", " ", folded)
    joined = re.sub(r"(?<=\b\w) (?=\w\b)", "", spaced)  # "i g n o r e"
    for reason, pattern in _COMPILED:
        if any(pattern.search(form) for form in (folded, spaced, joined)):
            return reason
    return ""


def _folded(text: str) -> str:
    """Compatible forms folded; accents and invisible characters, by which a word can hide, left out."""
    decomposed = unicodedata.normalize("NFKD", text)
    kept = (char for char in decomposed if unicodedata.category(char) not in {"Cf", "Mn", "Co", "Cs", "Cn"})
    return unicodedata.normalize("NFKC", "".join(kept)).casefold()
