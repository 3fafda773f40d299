"""Text → the words by which passages are found, English and Chinese alike.

Latin words and numbers are folded (NFKC, case) and stemmed; runs of Han characters become overlapping pairs, which
need no dictionary and find a word wherever it stands.
"""

from __future__ import annotations

import re
import unicodedata

import tantivy

ANALYZER = "words-1"
"""Names the rules of this file: an index made under others is made anew at its next sync."""

MAX_WORD_CHARS = 64
_RUN = re.compile("[㐀-䶿一-鿿豈-﫿]+|[^\\W_㐀-䶿一-鿿豈-﫿]+")
_UNTELLING = (
    "a an and are as at be been but by can could did do does for from had has have he her his how i if in into is it "
    "its me my no not of on or our she should so some than that the their them then there these they this those to "
    "was we were what when where which who why will with would you your please tell give show about"
)
_STOP_WORDS = frozenset(_UNTELLING.split())


def words(text: str) -> list[str]:
    """All words of `text` in order, before stemming."""
    found: list[str] = []
    for run in _RUN.findall(unicodedata.normalize("NFKC", text).casefold()):
        if _is_han(run[0]):
            found += [run[i : i + 2] for i in range(len(run) - 1)] or [run]
        elif len(run) <= MAX_WORD_CHARS:
            found.append(run)
    return found


def query_words(text: str, max_words: int) -> list[str]:
    """The distinct words of a question, without those that say nothing; bounded."""
    distinct = list(dict.fromkeys(words(text)))
    telling = [word for word in distinct if word not in _STOP_WORDS]
    return telling[:max_words]


def stemmer() -> tantivy.TextAnalyzer:
    """Splits at spaces and stems English; Han pairs stay as they are."""
    split = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace())
    return split.filter(tantivy.Filter.stemmer("english")).build()


def _is_han(char: str) -> bool:
    return "㐀" <= char <= "䶿" or "一" <= char <= "鿿" or "豈" <= char <= "﫿"
