"""The characters and short patterns by which a lenient reader knows where it is. All patterns are bounded."""

from __future__ import annotations

import re

CLOSING_QUOTES = {
    '"': '"”“＂',
    "'": "'’‘＇",
    "`": "`",
    "“": '”“"＂',
    "”": '”"',
    "‘": "’‘'",
    "’": "’'",
    "「": "」",
    "『": "』",
    "＂": '＂"',
    "＇": "＇'",
    "„": '“”"',
    "«": "»",
}
"""Opening quote → what may close it."""

OPENERS = {"{": "object", "｛": "object", "[": "array", "［": "array", "【": "array", "(": "tuple"}
CLOSERS = "}｝]］】)"
CLOSES_OBJECT = "}｝"

_QUOTE = "[\"'`“”‘’「『＂＇„«]"
_END_QUOTE = "[\"'`“”‘’」』＂＇»]"
_COLON = r"[ \t]*(?:[:：]|=>)"
_QUOTED_KEY = rf"{_QUOTE}[^\"“”＂\n{{}}]{{1,80}}?{_END_QUOTE}(?:{_COLON}|[ \t]*=|[ \t]+(?:{_QUOTE}|[-\d{{\[]))"
_BARE_KEY = rf"[A-Za-z_$\u4e00-\u9fff][\w$.\-]{{0,63}}{_COLON}"
_KEY = rf"(?:{_QUOTED_KEY}|{_BARE_KEY})"
_SPACE = r"[\s\x00-\x1f\xad\u200b-\u200f\u2060\ufeff]{0,400}+"
_COMMENT = r"(?://|/\*|\#|```|\.\.\.|…)"
_JOIN = "[ \\n]{0,40}\\+[ \\n]{0,40}[\"']"
_SEPARATOR = "[,，、;；]"
_ITEM = rf"(?:{_QUOTE}|[\[{{(｛［]|-?\d|(?:true|false|null|None|True|False|NaN)\b)"

KEY_START = re.compile(_KEY)
SECOND_KEY = re.compile(rf"[^\"“”＂\n]{{1,80}}?{_END_QUOTE}{_COLON}")
"""After the quote that opens it: a key up to its colon."""

STRING_ENDS = {
    "key": re.compile(rf"{_SPACE}(?:[:：]|=)|[ \t]+(?:{_QUOTE}|[-\d{{\[])"),
    "member": re.compile(
        rf"{_SPACE}(?:[}}｝\]］)]|\Z|(?:{_SEPARATOR}+{_SPACE}){{1,3}}(?:{_KEY}|[}}｝\]］]|\Z|{_COMMENT})|{_COMMENT})"
        rf"|[\s]{{1,400}}+{_KEY}|{_QUOTED_KEY}|{_JOIN}"
    ),
    "item": re.compile(
        rf"{_SPACE}(?:[\]］}}｝)]|\Z|{_SEPARATOR}+{_SPACE}(?:{_ITEM}|[\]］}}｝]|\Z|{_COMMENT})|{_COMMENT})"
        rf"|[\s]{{0,400}}+{_QUOTE}|{_JOIN}|[ \t]{{0,40}}\r?\n[\s]{{0,400}}+{_ITEM}"
    ),
}
"""After a quote: does the string end with it?"""

WORD_ENDS = {
    "member": re.compile(rf"{_SEPARATOR}{_SPACE}(?:{_KEY}|{_QUOTE}|[}}｝\]］]|\Z|{_COMMENT}|,)"),
    "item": re.compile(_SEPARATOR),
}
"""At a comma: does the bare word end with it?"""

LITERAL = re.compile(r"(?:-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null)(?![\w.+\-%])")
LITERAL_ENDS = {
    "member": re.compile(
        rf"{_SPACE}(?:[}}｝\]］)]|\Z|{_SEPARATOR}{_SPACE}(?:{_KEY}|{_QUOTE}|[}}｝\]］]|\Z|{_COMMENT}|,)|\n|//|/\*|#)"
        rf"|[ \t]{{1,40}}+{_KEY}"
    ),
    "item": re.compile(rf"{_SPACE}(?:[}}｝\]］),，;；]|\Z|\n|//|/\*)"),
}
CALL = re.compile(r"(?:new[ ]{1,4})?[A-Za-z_][\w.]{0,60}\(")
PREFIXED_QUOTE = re.compile(r"[uUbBrRfF]{1,2}(?=[\"'])")
