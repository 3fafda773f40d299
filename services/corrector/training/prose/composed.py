# ruff: noqa: SIM905  words read better in lines
"""Matters composed of roles: any of them together, said in phrases, lines or letters, in an order drawn anew.

Kinds with templates (`kinds`) teach their own order; here nothing but the words beside a value says what it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from services.corrector.training.prose import made
from services.corrector.training.prose.roles import ROLES, Role

CONTESTED = ("person", "company", "date", "money", "count", "code", "address", "city")
"""Sorts of which a matter has several values."""
SYLLABLES = "ka ro mi ven tal do sha ber nor li pas que zo fir lan gu te mar ix ol".split()
GIVEN = (
    "Aisha Bruno Chen Dalia Emeka Freya Gustav Hana Ivo Jasmin Kofi Lucia Mateo Nadia Oscar Paula Quentin Rosa Stefan "
    "Thandi Ulrich Vera William Xenia Yara Zoltan Dr. Mr. Ms. Mrs."
).split()
ENDINGS = "AG,Ltd,Inc,& Sons,Group,SA,Holdings,Partners,Industries,Bank,Foundation,Institute,BV".split(",")
KINDS_ZH = "有限公司 股份有限公司 集团 研究院 银行 事务所 中心 厂".split()
TOPICS = "Marketing,Quality control,Purchasing,Staff training,New website,Data protection,Legal,Finance".split(",")
TOPICS_ZH = "市场部,质量管理,采购部,人员培训,数据安全,财务部,研发中心,法务".split(",")
OPENERS = (
    "Dear colleagues,", "Hi all,", "Hello,", "To whom it may concern,", "MEMO", "Summary of the call:", "Notes",
    "Good morning,", "Record", "For the file:", "",
)  # fmt: skip
OPENERS_ZH = ("各位同事：", "您好！", "备忘录", "通知", "情况说明：", "王经理，您好：", "记录如下。", "")
CLOSERS = ("Kind regards", "Best wishes", "Thank you.", "Please confirm.", "More to follow.", "", "", "")
CLOSERS_ZH = ("此致敬礼", "谢谢！", "请确认。", "特此通知。", "", "", "")
ASIDES = {
    "date": ("An earlier plan named {}.", "The draft of {} is void.", "Last time it was {}."),
    "money": ("Last year it was {}.", "A first offer of {} was refused.", "Another case came to {}."),
    "person": ("{} handled this last year.", "{} is on leave.", "{} sends regards."),
    "company": ("{} was asked too, and declined.", "{} is not involved.", "A similar case at {} is closed."),
    "count": ("Last month there were {}.", "The first estimate said {}."),
    "code": ("It replaces {}.", "See also {}."),
}
ASIDES_ZH = {
    "date": ("原计划{}，现已取消。", "{}的草稿作废。"),
    "money": ("去年为{}。", "最初报价{}，未被接受。"),
    "person": ("{}去年负责此事。", "{}正在休假。"),
    "company": ("{}也曾被询问，未参与。", "{}与此无关。"),
    "count": ("上月为{}。",),
    "code": ("原编号{}已停用。", "另见{}。"),
}


@dataclass(frozen=True)
class Matter:
    source: str
    asked: dict[str, str]
    """Name of a field → its value in the words of the source; empty where it says none."""
    titles: dict[str, str]


def matter(rng: Random) -> Matter:
    language = rng.choice(("en", "zh"))
    told, untold = _roles(rng, language)
    used: set[str] = set()
    words = [_words(rng, role.sort, language, used) for role in told]
    text = _text(rng, language, list(zip(told, words, strict=True)), used)
    sorts = [role.sort for role in told]
    asked, titles = dict[str, str](), dict[str, str]()
    for role, value in [*zip(told, words, strict=True), *((role, "") for role in untold)]:
        if value and sorts.count(role.sort) == 1 and rng.random() < 0.7:
            continue  # nothing else could be meant
        name, title = _asked(rng, role, language)
        if name not in asked:
            asked[name], titles[name] = value, title
    return Matter(text, asked, titles)


def _roles(rng: Random, language: str) -> tuple[list[Role], list[Role]]:
    """That the source tells, and further ones of the same sorts that it does not."""
    told: list[Role] = []
    untold: list[Role] = []
    for sort in rng.sample(CONTESTED, 2 if language == "zh" else 3):
        of_sort = [role for role in ROLES if role.sort == sort]
        drawn = rng.sample(of_sort, min(len(of_sort), rng.randint(3, 5)))
        told += drawn[:-1][:3]
        untold += drawn[-1:] if rng.random() < 0.4 else []
    others = [role for role in ROLES if role.sort not in {each.sort for each in told}]
    told += rng.sample(others, rng.randint(0, 2))
    rng.shuffle(told)
    return told, untold


def _words(rng: Random, sort: str, language: str, used: set[str]) -> str:
    """A value that no other has, as prose writes it."""
    while True:
        word = _word(rng, sort, language)
        if word not in used:
            used.add(word)
            return word


def _word(rng: Random, sort: str, language: str) -> str:
    is_zh = language == "zh"
    match sort:
        case "date":
            return made.shown(made.date(rng), "zhdate" if is_zh else "date", rng)
        case "money":
            return made.shown(made.amount(rng, 20, rng.choice((900, 9_000, 90_000, 2_000_000))), "money", rng)
        case "count":
            return str(rng.randint(2, rng.choice((30, 300))))
        case "rate":
            return str(rng.choice((rng.randint(1, 40), round(rng.uniform(0.1, 20), 1))))
        case "code":
            return made.code(rng, "".join(rng.choices("ABCDEFGHKLMNPRSTUVWX", k=rng.randint(1, 3))))
        case "topic":
            return rng.choice(TOPICS_ZH if is_zh else TOPICS)
        case "email":
            return made.email(rng)
        case "person" if not is_zh and rng.random() < 0.5:
            return f"{rng.choice(GIVEN)} {_invented(rng)}"
        case "company" if rng.random() < 0.5:
            if is_zh:
                return f"{rng.choice(made.FIRMS_ZH)}{rng.choice(made.TRADES_ZH)}{rng.choice(KINDS_ZH)}"
            return f"{_invented(rng)} {rng.choice((rng.choice(made.TRADES) + ' ', ''))}{rng.choice(ENDINGS)}"
    word: str = getattr(made, sort)(rng, language)
    return word


def _invented(rng: Random) -> str:
    return "".join(rng.choices(SYLLABLES, k=rng.randint(2, 3))).capitalize()


def _asked(rng: Random, role: Role, language: str) -> tuple[str, str]:
    """Name and title of the field for a role: in English, in the source's language, or both."""
    name, title = rng.choice(role.names), ""
    if language == "zh":
        chance = rng.random()
        if chance < 0.3:
            return rng.choice(role.chinese_names), ""
        title = rng.choice(role.chinese_names) if chance < 0.6 else ""
    elif rng.random() < 0.15:
        title = rng.choice(role.names).replace("_", " ").capitalize()
    if rng.random() < 0.2:
        first, *rest = name.split("_")
        name = first + "".join(map(str.capitalize, rest))
    return name, title


def _text(rng: Random, language: str, told: Sequence[tuple[Role, str]], used: set[str]) -> str:
    style = rng.choice(("lines", "prose", "prose", "both"))
    cut = {"lines": len(told), "prose": 0, "both": len(told) // 2}[style]
    parts = [_lines(rng, language, told[:cut]), _prose(rng, language, told[cut:])]
    rng.shuffle(parts)
    opener = rng.choice(OPENERS_ZH if language == "zh" else OPENERS)
    closer = rng.choice(CLOSERS_ZH if language == "zh" else CLOSERS)
    sorts = {role.sort for role, _ in told}
    asides = ASIDES_ZH if language == "zh" else ASIDES
    for sort in sorted(sorts & asides.keys()):
        if rng.random() < 0.15:
            aside = rng.choice(asides[sort]).format(_words(rng, sort, language, used))
            parts.insert(rng.randint(0, len(parts)), aside)
    return rng.choice(("\n", "\n\n")).join(part for part in (opener, *parts, closer) if part)


def _dressed(rng: Random, sort: str, word: str, language: str) -> str:
    """With what stands around amounts."""
    if sort != "money":
        return word
    if language == "zh":
        return rng.choice((f"{word}元", f"{word}元", f"¥{word}", f"人民币{word}元"))
    return rng.choice((f"${word}", f"{word} EUR", f"USD {word}", f"€{word}", f"{word} dollars", f"£{word}"))


def _lines(rng: Random, language: str, told: Sequence[tuple[Role, str]]) -> str:
    mark = rng.choice(("：", "：", ": ") if language == "zh" else (": ", ": ", " - ", " | ", "\t"))
    joint = rng.choice(("\n", "\n", "; " if language == "en" else "；"))
    lines = []
    for role, word in told:
        label = rng.choice(role.chinese_names if language == "zh" else role.names).replace("_", " ")
        label = label if language == "zh" or rng.random() < 0.2 else label.capitalize()
        lines.append(f"{label}{mark}{_dressed(rng, role.sort, word, language)}{'%' if role.sort == 'rate' else ''}")
    return joint.join(lines)


def _prose(rng: Random, language: str, told: Sequence[tuple[Role, str]]) -> str:
    text, begins = "", True
    for index, (role, word) in enumerate(told):
        clause = rng.choice(role.chinese_phrases if language == "zh" else role.phrases)
        clause = clause.replace("{}", _dressed(rng, role.sort, word, language))
        if begins and language == "en":
            clause = clause[0].upper() + clause[1:]
        is_last = index == len(told) - 1
        if language == "zh":
            joint = "。" if is_last else rng.choice(("，", "，", "。", "；", "，并"))
        else:
            joint = "." if is_last else rng.choice((". ", ". ", ", ", "; ", ", and ", ".\n"))
        begins = joint.startswith(("。", "."))
        text += clause + joint
    return text
