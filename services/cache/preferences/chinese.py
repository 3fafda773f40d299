"""Standing wishes in Chinese: which sentences are one, and what two of them have in common."""

from __future__ import annotations

import re

_POLITE = r"(?:请您?|麻烦您?你?|拜托|劳驾|烦请|你好|您好|[，,、\s])*"
_SUBJECT = r"(?:我们?|你们?|您)?"
_ALWAYS = (
    r"(?>始终|一直都?|总是|永远|每次都?|以后(?:都|请|每次|一律)?|今后(?:都|请|一律)?|往后都?|从现在(?:开始|起)都?"
    r"|从今(?:以后|往后|天起)都?|默认|一律|任何时候都|统一|务必每次)"
)
_NOT = r"(?:不要再?|别再?|勿再?|不许再?|不用再?|不再)"
_FACT = r"(?:没|未|不能|不行|无法|收不到|找不到|打不开|用不了|失败|出错|报错|有问题|很|太|觉得|以为|在)"

RULES: tuple[tuple[str, str, re.Pattern[str]], ...] = tuple(
    (name, polarity, re.compile(f"^{_POLITE}{_SUBJECT}{_POLITE}{pattern}"))
    for name, polarity, pattern in (
        ("zh-never", "never", rf"(?:{_ALWAYS}[，,]?{_POLITE}{_SUBJECT}){_NOT}"),
        ("zh-never", "never", r"(?:不要再|别再|勿再|再也不要|再也别|千万不要|千万别|绝对不要|永不)"),
        ("zh-never", "never", r"(?:希望|想要?)(?:你们?|您)?(?:以后|今后|永远)?(?:不要再|别再|不再)"),
        ("zh-always", "always", rf"{_ALWAYS}[，,]?{_POLITE}(?!{_FACT})."),
        ("zh-always", "always", rf"(?:希望|想要?|需要|要求)(?:你们?|您|我)?{_ALWAYS}(?!{_FACT})."),
        ("zh-prefer", "always", r"(?:更?(?:喜欢|偏好|倾向于?)|习惯)(?:始终|一直|总是)?(?!了)."),
    )
)
"""Name, polarity, and what a sentence must begin with. Facts ("我一直没收到") fit none of them."""

MARKS = re.compile(rf"{_ALWAYS}|不要|别|勿|不许|不用|不再|永不|喜欢|偏好|倾向|习惯")
"""A sentence without any of these is no wish, which spares most of them the rules."""

_QUESTION = re.compile(r"[?？]$|[吗呢么]$|为什么|为何|怎么|怎样|什么|多少|哪")
_LEADING = re.compile(
    rf"^(?:{_ALWAYS}|{_NOT}|再也|千万|绝对|请您?|麻烦您?|拜托|烦请|帮我?|给我?|为我|替我|我们?|你们?|您|要|想|希望|需要"
    r"|要求|更?喜欢|偏好|倾向于?|习惯|都|就|只|能|可以|会|把|将|使用|采用|选用|选择|用|以|开具|开出|开|发送|发给我?|寄"
    r"|提供|安排|[，,、\s])"
)
_TRAILING = re.compile(r"(?:[吧啊哦呀哈了]|谢谢|好吗|可以吗|[，,、\s])$")
_ELSEWHERE = re.compile(r"[的\s，,、]")


def can_be_wish(sentence: str) -> bool:
    return not _QUESTION.search(sentence)


def normalized(sentence: str) -> str:
    """What is left without the words that only make it a wish: 请始终用电子发票 and 以后都给我开电子发票 are one."""
    text = sentence
    for pattern in (_LEADING, _TRAILING):
        while (shorter := pattern.sub("", text, count=1)) != text:
            text = shorter
    return _ELSEWHERE.sub("", text).casefold()
