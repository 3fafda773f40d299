# ruff: noqa: E501  tables of words are easier to read in long lines
"""A value for one of the options of an enumeration: another case, another separator, a synonym, a typing error."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from rapidfuzz.distance import OSA

from services.corrector.form.amounts import read_amount
from services.corrector.form.booleans import read_boolean
from services.corrector.form.digits import DASHES, decimal_of
from services.corrector.form.edits import Guess
from services.corrector.form.slips import is_contrary, is_slip
from services.corrector.form.values import is_number
from stagemesh.validation.json_text import dump

_SYNONYMS = (
    "pending|awaiting|waiting|open|待处理|待办|待定|等待中|未处理",
    "unpaid|outstanding|待付款|待支付|未付|未付款|未支付",
    "pending review|under review|in review|待审核|审核中|审批中",
    "in progress|processing|ongoing|wip|started|active|处理中|进行中|办理中",
    "active|enabled|valid|live|启用|有效|生效|在用|正常",
    "inactive|disabled|invalid|停用|禁用|失效|无效",
    "done|completed|complete|finished|closed|resolved|已完成|完成|办结|已结束",
    "closed|关闭|已关闭",
    "open|opened|new|打开|开启|新建",
    "paid|settled|已付|已付款|已支付|付清",
    "cancelled|canceled|cancel|void|已取消|取消|作废",
    "rejected|denied|declined|refused|驳回|已驳回|拒绝|已拒绝|不通过",
    "approved|accepted|passed|通过|已通过|已批准|批准|同意",
    "shipped|dispatched|sent|in transit|已发货|发货|运输中|在途",
    "delivered|received|arrived|已送达|送达|已签收|签收|已到货",
    "draft|草稿",
    "refunded|returned|已退款|退款|已退货",
    "failed|failure|error|失败|错误",
    "success|succeeded|successful|ok|成功",
    "expired|过期|已过期|到期",
    "overdue|late|逾期|已逾期",
    "high|h|高|高级",
    "medium|mid|normal|m|中|中级|普通|一般|中等",
    "low|l|低|低级",
    "urgent|critical|紧急|加急|特急|严重",
    "male|m|man|男|男性|先生",
    "female|f|woman|女|女性|女士",
    "=cny|rmb|人民币|chinese yuan|renminbi", "cny|元|yuan",
    "=usd|us$|us dollar|us dollars|美元|美金", "usd|dollar|dollars",
    "=eur|€|euro|euros|欧元",
    "=gbp|£|pound sterling|英镑",
    "jpy|yen|日元|japanese yen",
    "=hkd|hk$|港币|港元|hong kong dollar",
    "=kg|kilogram|kilograms|kilo|公斤|千克",
    "g|gram|grams|克",
    "pcs|pc|piece|pieces|个|件",
    "box|boxes|箱|盒",
    "m|meter|metre|meters|米",
    "left|左|左侧|左边", "right|右|右侧|右边",
    "bank transfer|wire|wire transfer|transfer|银行转账|转账|电汇|对公转账",
    "cash|现金",
    "credit card|card|信用卡",
    "alipay|支付宝",
    "wechat pay|wechat|weixin|微信|微信支付",
    "=monday|mon|星期一|周一", "=tuesday|tue|星期二|周二", "=wednesday|wed|星期三|周三", "=thursday|thu|星期四|周四",
    "=friday|fri|星期五|周五", "=saturday|sat|星期六|周六", "=sunday|sun|星期日|星期天|周日",
    "yes|y|是|true", "no|n|否|false",
    "individual|personal|person|个人", "company|corporate|business|enterprise|公司|企业|单位",
    "full time|fulltime|ft|全职", "part time|parttime|pt|兼职", "contract|contractor|合同工|合同制",
    "annual leave|annual|vacation|年假", "sick leave|sick|病假", "personal leave|事假",
    "monthly|month|每月|按月|月付|月结", "yearly|annual|annually|每年|按年|年付", "weekly|week|每周|按周", "quarterly|quarter|每季度|按季|季付", "daily|day|每日|每天|按天",
    "standard|regular|标准|普通", "express|expedited|快递|加急", "online|线上|在线", "offline|线下",
    "buy|purchase|买入|采购|购买", "sell|sale|卖出|销售", "income|收入", "expense|支出", "debit|借|借方", "credit|贷|贷方",
    "=china|cn|中国|prc", "=united states|us|usa|美国", "=germany|de|德国", "=japan|jp|日本",
    "=english|en|英语|英文", "=chinese|zh|中文|汉语",
)  # fmt: skip


_SILENT = re.compile(r"[\s!\"'“”‘’。！]+")
_SEPARATORS = re.compile(r"(?<=[^\W\d])[_\-./·:,，]+(?=\w)|(?<=\w)[_\-./·:,，]+(?=[^\W\d])")
"""Between two words; between two digits, and before or after all, marks say something: 1.0 and 10, A and A-."""
_DIGITS = str.maketrans("一二三四五六七八九壹贰叁肆伍陆柒捌玖", "123456789" * 2)


def _folded(text: str) -> str:
    bare = _SILENT.sub("", unicodedata.normalize("NFKC", text).casefold().translate(DASHES).replace("\u2044", "/"))
    return _SEPARATORS.sub("", bare).strip("_./·:,，")


_GROUPS = [frozenset(_folded(word) for word in group.lstrip("=").split("|")) for group in _SYNONYMS]
_IDENTICAL = frozenset(group for group, text in zip(_GROUPS, _SYNONYMS, strict=True) if text.startswith("="))
"""Groups of names for one thing; in the others the words only mean nearly the same."""


_CONTRARY = frozenset("已未不非无有否可正负正反高低上下大小多少进出收付买卖甲乙新旧男女左右前后内外早晚半全")
"""Characters of which one more or less, or another one, makes another word of it, not a typing error."""


def enum_guesses(value: Any, options: Sequence[Any]) -> list[Guess]:
    """Options that the value may mean."""
    if len(options) == 1 and options[0] is not None:
        return [Guess(options[0], "the only value that the schema allows", 0.75)]
    if value is None or isinstance(value, dict | list):
        return []
    text = value if isinstance(value, str) else dump(value)
    if is_number(value):
        spelled = [option for option in options if isinstance(option, str) and decimal_of(option) == decimal_of(text)]
        if len(spelled) > 1:
            return [Guess(option, "one of several spellings of the number", 0.4) for option in spelled]
    form = _folded(text)
    folded = [(option, _folded(option if isinstance(option, str) else dump(option))) for option in options]
    same = [option for option, other in folded if other == form and form]
    if len(same) == 1:
        return [Guess(same[0], "the allowed value in another spelling", 0.9)]
    counted = [option for option, other in folded if other.translate(_DIGITS) == form.translate(_DIGITS) and form]
    if len(counted) == 1:
        return [Guess(counted[0], "the allowed value with another numeral", 0.85)]
    if any(map(is_number, options)) and (numbers := _numeric(text, options)):
        return numbers
    if form:
        return _synonyms(form, folded) or _boolean(value, options) or _near(form, folded) or _part(form, folded)
    return []


def _numeric(text: str, options: Sequence[Any]) -> list[Guess]:
    """The option that is the number of a text."""
    amount = read_amount(text)
    found = [option for option in options if amount and is_number(option) and option == amount.value]
    if amount is None or len(found) != 1:
        return []
    is_bare = not (amount.unit or amount.currency)
    return [Guess(found[0], "the allowed number in another form", amount.confidence if is_bare else 0.7)]


def _synonyms(form: str, folded: list[tuple[Any, str]]) -> list[Guess]:
    found = [
        (option, other, group) for option, other in folded for group in _GROUPS if form in group and other in group
    ]
    meant = {repr(option): option for option, _, _ in found}
    if len(meant) != 1:
        return [Guess(option, "an allowed value that may mean the same", 0.4) for option in meant.values()]
    option, other, group = found[0]
    translated = form.isascii() != other.isascii()
    akin = form[0] == other[0] and (len(form) == 1 or form[:2] == other[:2])  # canceled, 完成 and 完结
    sure = translated or akin or group in _IDENTICAL
    return [Guess(option, "the allowed value that means the same", 0.85 if sure else 0.7)]


def _boolean(value: Any, options: Sequence[Any]) -> list[Guess]:
    if set(map(type, options)) != {bool} or not isinstance(value, str):
        return []
    read = read_boolean(value)
    return [] if read is None else [Guess(read[0], "a word for true or false", read[1])]


def _near(form: str, folded: list[tuple[Any, str]]) -> list[Guess]:
    """Options one typing error away, two for long ones."""
    close = []
    for option, other in folded:
        distance = int(OSA.distance(form, other, score_cutoff=2))
        if isinstance(option, str) and 0 < distance <= (2 if len(other) >= 9 else 1) and _may_err(form, other):
            close.append((distance, option, other))
    if not close:
        return []
    least = min(distance for distance, _, _ in close)
    nearest = [(option, other) for distance, option, other in close if distance == least]
    if len(nearest) > 1:
        return [Guess(option, "one of several allowed values near it", 0.4) for option, _ in nearest]
    option, other = nearest[0]
    sure = least == 1 and is_slip(form, other)
    return [Guess(option, "the allowed value one typing error away", 0.85 if sure else 0.65)]


def _may_err(form: str, option: str) -> bool:
    """Long enough that one character off still tells which option was meant, and not its contrary or another number."""
    if len(option) < (3 if not option.isascii() else 4):
        return False
    if re.sub(r"\D", "", form) != re.sub(r"\D", "", option) or not re.search(r"[^\W\d]", option):
        return False
    return not is_contrary(form, option) and not (set(form) ^ set(option)) & _CONTRARY


def _part(form: str, folded: list[tuple[Any, str]]) -> list[Guess]:
    """The one option that the value begins, ends or holds (`status: paid`, `已付款。`)."""
    held = [option for option, other in folded if len(other) > 1 and other in form]
    if len(held) == 1:
        negated = re.search(r"^(?:not|un|in|non|未|不|非|无)", form) is not None
        return [] if negated else [Guess(held[0], "the allowed value with something around it", 0.7)]
    holding = [option for option, other in folded if len(form) > 2 and other.startswith(form)]
    if len(holding) == 1 and not is_number(holding[0]):
        return [Guess(holding[0], "the allowed value that begins so", 0.7)]
    return []
