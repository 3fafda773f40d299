"""What a source text says, as typed values with their places."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from services.corrector.form.amounts import read_amount
from services.corrector.form.dates import find_dates
from services.corrector.form.shape import Shape
from services.corrector.form.values import is_number, plain_number

MAX_CHARS = 100_000
MAX_TOKENS = 4_000
LABEL_CHARS = 48

_NUMBER = re.compile(
    r"(?<![A-Za-z0-9_.,\-/#])(?:(?:US\$|[$€£¥￥])\s?)?-?\d[\d,]*(?:\.\d+)?(?:\s?(?:thousand|million|billion|[万亿]|[kK](?![\w]))(?:元|圆)?)?(?![A-Za-z0-9_\-/]{0,60}\d)"
)
_TOKEN = re.compile(r"[^\s,，。;；、:：()（）\"'“”‘’「」<>]+")
_ASCII = re.compile(r"[A-Za-z0-9][A-Za-z0-9\-_/.]*")
_EMAIL = re.compile(r"[A-Za-z0-9_.+\-]{1,64}@[A-Za-z0-9\-]{1,63}(?:\.[A-Za-z0-9\-]{1,63}){1,5}")
_URL = re.compile(r"https?://[^\s,，。;；()（）\"'“”<>]{1,500}")
_CLAUSE_END = re.compile(r"[\n。；;!?！？]|\.(?=\s|\Z)")
_GENERIC = frozenset(
    [
        "the",
        "a",
        "an",
        "of",
        "in",
        "for",
        "to",
        "is",
        "and",
        "or",
        "id",
        "no",
        "number",
        "value",
        "date",
        "name",
        "field",
        "total",
        "amount",
        "的",
        "号",
        "编号",
        "日期",
        "名称",
        "金额",
    ]
)


@dataclass(frozen=True)
class Said:
    value: Any
    start: int
    end: int


class Source:
    def __init__(self, text: str) -> None:
        self.text = text[:MAX_CHARS]
        self._narrow = unicodedata.normalize("NFKC", self.text)
        self._dates: list[Said] | None = None
        self._numbers: list[Said] | None = None

    def __bool__(self) -> bool:
        return bool(self.text.strip())

    def holds(self, value: Any) -> bool:
        """Whether the value stands in the text, in some form."""
        if not self.text or value is None or isinstance(value, bool | dict | list):
            return False
        if is_number(value):
            return any(said.value == value for said in self.numbers())
        text = str(value)
        if re.fullmatch(r"\d{4}-\d\d-\d\d", text) and any(said.value == text for said in self.dates()):
            return True
        return bool(text) and unicodedata.normalize("NFKC", text) in self._narrow

    def dates(self) -> list[Said]:
        """Dates with one reading only, as `YYYY-MM-DD`."""
        if self._dates is None:
            self._dates = [
                Said(f"{date:%Y-%m-%d}", start, end) for date, sure, start, end in find_dates(self.text) if sure
            ]
        return self._dates

    def numbers(self) -> list[Said]:
        """Numbers that are no part of a date, an identifier or an address."""
        if self._numbers is None:
            taken = [(said.start, said.end) for said in self.dates()]
            taken += [
                (match.start(), match.end()) for pattern in (_EMAIL, _URL) for match in pattern.finditer(self.text)
            ]
            self._numbers = []
            for match in _NUMBER.finditer(self.text):
                if any(start < match.end() and match.start() < end for start, end in taken):
                    continue
                amount = read_amount(match[0].strip().rstrip(","))
                if amount is not None:
                    value = amount.value if abs(amount.value) < Decimal(10) ** 18 else Decimal(0)
                    self._numbers.append(Said(plain_number(value), match.start(), match.end()))
                if len(self._numbers) >= MAX_TOKENS:
                    break
        return self._numbers

    def candidates(self, shape: Shape) -> list[Said]:
        """What the text says that a scalar of this shape could be, in order."""
        return [said for said in self._typed(shape) if shape.accepts(said.value)]

    def _typed(self, shape: Shape) -> Iterator[Said]:
        name = shape.keywords.get("format")
        if shape.enum is not None:
            yield from self._options([option for option in shape.enum if isinstance(option, str) and len(option) > 1])
        elif name == "date":
            yield from self.dates()
        elif name in ("email", "idn-email"):
            yield from self._matches(_EMAIL)
        elif name in ("uri", "iri"):
            yield from self._matches(_URL)
        elif "pattern" in shape.keywords and "string" in shape.types:
            yield from self._tokens()
        elif shape.types & {"number", "integer"} and "string" not in shape.types:
            yield from self.numbers()

    def _tokens(self) -> Iterator[Said]:
        """Words, and what of them is no Chinese."""
        for number, match in enumerate(_TOKEN.finditer(self.text)):
            if number == MAX_TOKENS:
                return
            yield Said(match[0].rstrip(".:：!?"), match.start(), match.end())
            for part in _ASCII.finditer(match[0]) if not match[0].isascii() else ():
                yield Said(part[0].rstrip("."), match.start() + part.start(), match.start() + part.end())

    def _matches(self, pattern: re.Pattern[str]) -> Iterator[Said]:
        for match in pattern.finditer(self.text):
            yield Said(match[0].rstrip("."), match.start(), match.end())

    def _options(self, options: list[str]) -> Iterator[Said]:
        low = self.text.casefold() if len(self.text.casefold()) == len(self.text) else self.text
        for option in options[:200]:
            words = re.escape(option.casefold()).replace("_", "[ _-]").replace(r"\-", "[ _-]")
            edge = r"\b" if option.isascii() else ""
            for match in re.finditer(f"{edge}{words}{edge}", low):
                yield Said(option, match.start(), match.end())

    def keys(self, keys: tuple[str, ...]) -> list[Said]:
        """Keys of a reference set that stand in the text."""
        return [Said(key, at, at + len(key)) for key in keys if (at := self.text.find(key)) >= 0]

    def is_labelled(self, said: Said, about: str, others: list[Said]) -> bool:
        """Whether words of a field's name stand before a value, in its clause and after any other candidate."""
        before = max((other.end for other in others if other.end <= said.start), default=0)
        clause = self.text[max(before, said.start - LABEL_CHARS) : said.start]
        last = _CLAUSE_END.split(clause)[-1].casefold()
        return any(word in last for word in label_words(about))


def label_words(about: str) -> list[str]:
    """The telling words of a field's name, title and description."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", about)
    words = re.findall(r"[a-z]{3,}|[\u4e00-\u9fff]{2,}", spaced.replace("_", " ").replace("-", " ").casefold())
    telling = [word for word in words if word not in _GENERIC]
    return telling or words
