"""The form of a text in which values and keys are compared."""

from __future__ import annotations

import re
import unicodedata

CJK = r"\u2e80-\u303f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
HAS_CJK = re.compile(f"[{CJK}]")
_SPACES_IN_CJK = re.compile(rf"(?<=[{CJK}])\s+(?=[{CJK}])")


def form_of(text: str) -> str:
    """The text in one width and compatibility form, without needless spaces."""
    if text.isascii():
        return " ".join(text.split())
    return _SPACES_IN_CJK.sub("", " ".join(unicodedata.normalize("NFKC", text).split()))
