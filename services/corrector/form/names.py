# ruff: noqa: E501  tables of words are easier to read in long lines
"""Texts that satisfy their schema and yet are not what was meant: `张 三`, `１３８００`, an unseen control character."""

from __future__ import annotations

import re
import unicodedata

from services.corrector.form.edits import Guess

_CJK = "\u3400-\u4dbf\u4e00-\u9fff"
_SINGLE = re.compile(rf"[{_CJK}](?:[ \u3000\u00a0]+[{_CJK}])+")
SURNAMES = frozenset(
    "王李张刘陈杨黄赵吴周徐孙马朱胡郭何林罗郑梁谢宋唐许韩邓冯曹彭曾肖田董潘袁蔡蒋余于杜叶程魏苏吕丁任卢姚沈钟姜崔谭陆范汪廖石金韦贾夏付方邹熊白孟秦邱侯江尹薛闫段雷龙黎史陶贺毛郝顾龚邵万覃武钱戴严莫孔向常汤康易乔赖文"
) | {"欧阳", "司马", "上官", "诸葛", "东方", "皇甫", "尉迟", "公孙", "慕容", "令狐", "司徒", "夏侯"}  # fmt: skip
_PERSON = re.compile(
    r"name|contact|person|manager|owner|customer|client|buyer|seller|author|employee|patient|teacher|student|recipient|applicant|姓名|名字|联系人|负责人|客户|收货人|收件人|经理|员工|申请人|经办人|作者|患者|学生|老师|买方|卖方|人$",
    re.IGNORECASE,
)
_TORN = re.compile(r"\b([A-Z]) (?=[a-z]{2,})")
_WIDE = re.compile(r"[\uff10-\uff19\uff21-\uff3a\uff41-\uff5a]")
_WIDE_TEXT = re.compile(
    r"[\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\uff0d\uff0e\uff0f\uff0b\uff1a\uff3f\uff20\uff08\uff09A-Za-z0-9 \-./+:_@()]+"
)
_ODD = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u200b\u2060\ufeff]")
_WIDE_MARK = re.compile(r"[\uff0c\uff1a\uff1b\uff08\uff09\uff01\uff1f\uff0f\uff0d\uff0e\uff05\uff04\uff06\uff0b\uff1d]")


def text_guess(text: str, key: str, *, text_is_wide: bool, text_is_odd: bool) -> Guess | None:
    """The text that was meant, or None. `text_is_wide`: the JSON around it was written in full width.

    `text_is_odd`: there are characters that show nothing around it as well.
    """
    if _ODD.search(text):
        return Guess(_ODD.sub("", text), "characters that show nothing", 0.85 if text_is_odd else 0.45)
    if text.isascii():
        return _torn(text, key)
    if spaced := _unspaced(text, key):
        return spaced
    if _WIDE.search(text):
        return _narrowed(text, text_is_wide)
    if text_is_wide and _WIDE_MARK.search(text) and not re.search(rf"[{_CJK}]", text):
        return Guess(unicodedata.normalize("NFKC", text), "full-width punctuation", 0.8)
    return None


def _torn(text: str, key: str) -> Guess | None:
    """`A da King`, `Ada  King`: told, not changed, since nothing says how a name is spelled."""
    if not _PERSON.search(key) or not (_TORN.search(text) or "  " in text.strip()):
        return None
    joined = _TORN.sub(r"\1", " ".join(text.split()))
    return Guess(joined, "a name with a space that may not belong there", 0.45)


def _unspaced(text: str, key: str) -> Guess | None:
    """Chinese names are written without spaces."""
    bare = re.sub(r"[ \u3000\u00a0]+", "", text)
    if bare == text or not re.fullmatch(rf"[{_CJK}]+", bare):
        return None
    parts = text.split()
    if _SINGLE.fullmatch(text.strip()) and len(bare) <= 6:
        return Guess(bare, "a name with spaces between its characters", 0.85)
    is_person = _PERSON.search(key) is not None
    if (
        is_person
        and 2 <= len(bare) <= 4
        and parts
        and (parts[0] in SURNAMES or bare[0] in SURNAMES or bare[:2] in SURNAMES)
    ):
        return Guess(bare, "a name with spaces between its characters", 0.85)
    return None


def _narrowed(text: str, text_is_wide: bool) -> Guess | None:
    """Full-width letters and digits; punctuation stays as it is beside Chinese."""
    if _WIDE_TEXT.fullmatch(text):
        return Guess(unicodedata.normalize("NFKC", text), "full-width characters", 0.85)
    narrow = _WIDE.sub(lambda match: unicodedata.normalize("NFKC", match[0]), text)
    return Guess(narrow, "full-width letters and digits", 0.85 if text_is_wide else 0.8)
