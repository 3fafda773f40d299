"""The words by which a source may speak of a field: its name, title and description, and what means the same."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from services.corrector.content.vocabulary import GROUPS

MAX_OCCURRENCES = 40
"""Of one field's labels that are looked at."""

_GROUPS = (
    "quantity qty pieces 数量 件数",
    "price priced 单价 价格 售价 each 每件 每台 每个 每箱",
    "amount sum 金额 款项 数额",
    "gross 毛重 税前",
    "net 净重 税后",
    "total 合计 总计 总额 总价 总金额 共计",
    "customer client 客户 顾客",
    "supplier vendor 供应商 供货商 供方",
    "buyer purchaser 买方 购买方 采购方",
    "seller 卖方 销售方",
    "city 城市",
    "destination 目的地 送往 发往",
    "origin 始发地 发自 起运",
    "due deadline 到期 截止 交付 交货",
    "start begin begins starting effective from 开始 起始 生效",
    "end ends ending expiry expires until 结束 终止 届满 到期",
    "signed signing 签订 签署 签约",
    "issued issue 开具 出具 签发",
    "delivery deliver delivered delivering 交付 交货 送达 送至 运至 到货",
    "shipped shipping dispatched dispatch 发货 出货 寄出",
    "received receipt 收到 签收",
    "ordered placed 下单 订购",
    "invoice 发票",
    "order 订单",
    "contract agreement 合同 协议",
    "ticket 工单",
    "case 案号 案件",
    "phone telephone tel mobile 电话 手机",
    "email mail 邮箱 邮件",
    "address 地址 住址",
    "weight weighing weighs 重量",
    "length 长度 长",
    "width 宽度 宽",
    "height 高度 高",
    "product item goods article 产品 商品 货物 物品 品名",
    "department 部门",
    "tax vat 税额",
    "discount 折扣 优惠",
    "deposit 押金 定金 保证金",
    "rent rental 租金 月租",
    "term duration period 期限",
    "salary wage pay 工资 薪资 月薪",
    "age aged 年龄",
    "patient 患者 病人",
    "doctor physician 医生 医师",
    "manager 经理 主管",
    "contact 联系人",
    "employee staff 员工 职员",
    "recipient receiver consignee 收件人 收货人",
    "sender shipper consignor 寄件人 发货人",
    "holder 持有人",
    "author 作者",
    "applicant 申请人",
    "landlord lessor 出租方 房东",
    "tenant lessee 承租方 租客",
    "company firm organization 公司 单位",
    "account 账号 账户",
    "bank 银行",
    "project 项目",
    "model 型号",
    "serial 序列号",
    "color colour 颜色",
    "rate 利率 费率 年利率",
    "fee charge 费用 手续费",
    "warranty guarantee 保修 质保",
    "floor 楼层",
    "room 房间 房号",
    "guests guest 客人 入住",
    "nights night 晚",
    "days day 天",
    "months month 个月",
    "years year",
    "passenger 乘客 旅客",
    "flight 航班",
    "departure departs 出发 起飞",
    "arrival arrives 到达 抵达",
    "urgent 紧急 加急",
    "paid 已付 付清",
    "parcels parcel packages package 包裹",
    "incident accident 事故 事件 出险",
    "claim claimed claims 索赔 理赔",
    "birth born 出生",
    "hired joined hire 入职",
    "penalty fine 违约金 罚款",
    "interest 利息",
    "principal 本金",
    "loan 贷款 借款",
)
_BY_WORD: dict[str, set[str]] = {}
for _words in (*(group.split() for group in _GROUPS), *(group.split("|") for group in GROUPS)):
    for _word in _words:
        _BY_WORD.setdefault(_word, set()).update(_words)

_GENERIC_WORDS = (
    "number no id code name date value type the of in on at by is are has a an and or for to per unit key ref "
    "reference field text string kg eur usd cny iso format as with this that which its day days week weeks month "
    "months year years hour hours minute minutes percent pct euro euros dollar dollars"
    " 编号 号 日期 名称 名 时间 数 值 类型 的"
)
_GENERIC = frozenset(_GENERIC_WORDS.split())
_SAID_TOGETHER = sorted(
    (word for word in _BY_WORD if word.isascii() and len(set(re.split("[ -]", word)) - _GENERIC) > 1),
    key=len,
    reverse=True,
)
_PHRASE = re.compile(
    rf"(?<![a-z0-9])(?:{'|'.join(re.sub('[ -]', '[ -]', word) for word in _SAID_TOGETHER)})(?![a-z0-9])"
)
_ENDINGS = r"(?:s|es|d|ed|ing|e|y|ment|ion|ions|er)?"
_HAN = re.compile(r"[\u4e00-\u9fff]+")
_LATIN = re.compile(r"[a-z]+")


@dataclass(frozen=True)
class Label:
    word: str
    """In small letters."""
    distance: int
    """How much less it says than the field's own name: 0 for that, more for parts of it and for what means the same."""


PART, SAME = 5, 3


def labels(name: str, title: str = "", description: str = "") -> tuple[Label, ...]:
    """The field's own words first."""
    found: dict[str, int] = {}
    for text, less in ((name, 0), (title, 0), (description[:200], SAME)):
        for word, distance in _of(text):
            found.setdefault(word, distance + less)
    for word, distance in tuple(found.items()):
        for other in sorted(same_as(word)):
            found.setdefault(other, distance + SAME)
    return tuple(Label(word, distance) for word, distance in found.items())


def same_as(word: str) -> set[str]:
    """What means the same as a word in small letters, the word itself among it; nothing for one that is not known."""
    return _BY_WORD.get(word, set())


def is_generic(text: str) -> bool:
    """Whether a text is only words that many fields have, like `ID`, and names nothing."""
    return all(word in _GENERIC for word in text.lower().rstrip(".").split())


def telling(each: Sequence[tuple[Label, ...]]) -> list[tuple[Label, ...]]:
    """Labels without those that are more another field's, or as much; a field that has no others keeps them."""
    nearest: dict[str, int] = {}
    for label in (label for own in each for label in own):
        nearest[label.word] = min(label.distance, nearest.get(label.word, label.distance))
    shared = Counter(label.word for own in each for label in own if label.distance == nearest[label.word])
    return [
        tuple(label for label in own if label.distance == nearest[label.word] and shared[label.word] == 1) or own
        for own in each
    ]


def _of(text: str) -> Iterator[tuple[str, int]]:
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text).lower()
    words = [word for word in _LATIN.findall(spaced) if len(word) > 1]
    own = [word for word in words if word not in _GENERIC] or (words if len(words) == 1 else [])
    if len(own) > 1:
        yield " ".join(own), 0
    if len(words) > 1 and words[-1] in ("by", "to", "at", "on", "from", "in", "for"):
        yield " ".join(words), 0
    yield from ((word, 0 if word == own[-1] else PART) for word in own)
    for run in _HAN.findall(text):
        run = run.removeprefix("是否")
        if len(run) <= 8:
            yield run, 0
        parts = (run[:2], run[2:4], run[-2:]) if len(run) >= 4 else (run[:2],) if len(run) == 3 else ()
        yield from ((part, PART) for part in parts if part not in _GENERIC)


def occurrences(own: Sequence[Label], lowered: str) -> list[tuple[int, int, int]]:
    """Where a source, in small letters, has one of the words: start, end and the label's distance.

    Not at the beginning of words for something else: `check` in check-out, `invoice` in invoice date.
    """
    words = {label.word for label in own}
    others = [(start, end) for start, end, phrase in _phrases(lowered) if phrase not in words]
    found: list[tuple[int, int, int]] = []
    for label in own:
        for match in inflected(label.word).finditer(lowered):
            if any(start <= match.start() and match.end() < end for start, end in others):
                continue
            found.append((*match.span(), label.distance))
            if len(found) >= MAX_OCCURRENCES:
                return found
    return found


@lru_cache(maxsize=8)
def _phrases(lowered: str) -> tuple[tuple[int, int, str], ...]:
    """Where words stand that say something together."""
    return tuple((*match.span(), match[0].replace("-", " ")) for match in _PHRASE.finditer(lowered))


def inflected(word: str) -> re.Pattern[str]:
    """The word and its inflections."""
    if not word.isascii():
        return re.compile(re.escape(word))
    base = re.sub(r"(?:ing|ed|es|s|e)$", "", word) if len(word) >= 6 else word
    return re.compile(rf"(?<![a-z0-9]){re.escape(base)}{_ENDINGS}(?![a-z0-9])")
