"""Rules for long texts, on labelled cases in English and Chinese: what is wrong is found, clean texts have no issue."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from stagemesh.validation.constraint import Constraint
from stagemesh.validation.limits import Limits
from stagemesh.validation.rule import TEXT, Rule
from stagemesh.validation.validate import Validator
from stagemesh.validation.verdict import Issue

VALIDATOR = Validator(Limits())
ALL = {"clauses": True, "dates": True, "amounts": True, "tables": {}, "citations": {"clauses": True, "notes": True}}


def issues(text: str, **fields: Any) -> tuple[Issue, ...]:
    rule = Rule(TEXT, json.dumps(fields or ALL))
    return VALIDATOR.validate(text, Constraint(), [rule]).issues


CLEAN = [
    "Rights:\n1. to copy\nall parts, and,\n2. to lend; and,\n3. to sell.",
    "Section 1 -- Definitions.\n\nSection 2 -- Scope.\n\nSections 1 and 2 survive.",
    "1. One\n2. Two\n3. Three\n\n2. Copyright\n3. Restrictions",
    "1. Goods\n2. Price\n\nNotes\n1. See Section 5 of the law.\n2. And Section 9.",
    "* 1. Scope *\n*\n* 2. Term *\n*\n3. End; clause 252.227-7013.",
    "Section 1.1 Goods\nSection 1.2 Services\n第2.1条 价格\n第2.2条 期限",
    "Specification:\n1.5 GB memory\n2.0 GHz clock\n0.5 MB cache",
    "CAS 7732-18-5 and 1234-56-78; 35 May; In May 35 people came.",
    "Growth of three point five (3.5) and twenty twenty-five (2025); phase nine eleven (911).",
    "人民币（大写）壹万贰仟元整，（小写）¥12,000.00元。小写：¥300.50 大写：人民币叁佰元伍角整。",
    "违约金为百分之十五（15%），三十（30）日内支付，宽限叁拾天（30天）。",
    "第一条 依据\n第二条 适用《民法典》第五百条、第五百零一条和第五百零二条，以及该条例第三条。\n"
    "第三条 见第一条、第二条。",
    "Article 1 Scope\nUnder GDPR Article 6, Article 83 GDPR and Section 230 U.S.C., subject to Article 1.",
    "Case [2024] EWCA Civ 1; 国发[2024]3号。",
    "Article 12 Payment\nThe price is due.\n\nArticle 13 Delivery\nSee Article 12.\n"
    "Section 1. Place\nSection 2. Time\nArticle 14\nSection 1. Risk",
    "1. Scope\n1.1 Goods\n1.2 Services\n1.2.1 Support\n1.2.2 Training\n"
    "2. Price\n2.1 Amount\n3. Term\nAs said in Section 1.2 and Clause 2.",
    "Signed on 29 February 2024 and 2025-02-28; due March 31, 2025, or 31/12/2025. "
    "Version 2024.13.1, ID INV-2025-13-45.",
    "The fee is twelve thousand US dollars ($12,000.00), payable in thirty (30) days; "
    "two hundred and five (205) units.",
    "第一章 总则\n第一条 目的\n第二条 范围\n第二章 交付\n第三条 时间。按照第二条的规定办理。\n第4条 地点",
    "第一章 总则\n第一条 目的\n第二条 范围\n第二章 交付\n第一条 时间\n第二条 地点",
    "第十一条 甲方\n第十二条 乙方\n\n根据《合同法》第五百条和第十一条\n第十三条 其他",
    "Article 12 Payment\nThe price is due.\n\nArticle 13 Delivery\nSee Article 12.\n"
    "Section 1. Place\nSection 2. Time\nArticle 14\nSection 1. Risk",
    "ARTICLE I\nScope\n\nARTICLE II\nTerm\n\nARTICLE III\nEnd, subject to Article II and Articles I to III.",
    "1. Scope\n1.1 Goods\n1.2 Services\n1.2.1 Support\n1.2.2 Training\n"
    "2. Price\n2.1 Amount\n3. Term\nAs said in Section 1.2 and Clause 2.",
    "Weights:\n2.5 kg of flour\n1.2 kg of sugar\n\n0.5 l of milk",
    "1. Mix\n2. Bake\n\nThen:\n1. Cut\n2. Serve",
    "This follows the rules set out in\nArticle 5 of the GDPR, and in\nSection 409A of the Code.",
    "一、背景\n二、目标\n（一）近期\n三、计划",
    "Signed on 29 February 2024 and 2025-02-28; due March 31, 2025, or 31/12/2025. "
    "Version 2024.13.1, ID INV-2025-13-45.",
    "双方于2024年2月29日签订，二〇二五年三月三十一日到期；每年2月29日复查。",
    "合同价款为人民币壹万贰仟元整（¥12,000.00），定金500元（大写：伍佰元整），余款1.15万元（壹万壹仟伍佰元整）。",
    "The fee is twelve thousand US dollars ($12,000.00), payable in thirty (30) days; "
    "two hundred and five (205) units.",
    "Pay USD 1,250.50 (one thousand two hundred fifty dollars and fifty cents); ten percent (10%) interest.",
    "| a | b |\n|---|:-:|\n| 1 | x \\| y |\n| 2 | `z` |\n\nText with a | bar.",
    '```csv\na,b\n1,"x,y"\n2,z\n```',
    "As shown [1], [2-3], see [the page](http://x) and `a[7]`.\n\n[1] Smith\n[2] Jones\n[3] Lee",
    "Chapter 1\nSection 1. A\nSection 2. B\nChapter 2\nSection 1. C",
    "第一条 违约金不超过百分之十。\n\n第二条 依照前条执行，见第一条、第二条。",
    "May 5 people join? They may 35 times. In May 2025 we met.",
]


@pytest.mark.parametrize("text", CLEAN)
def test_a_clean_text_has_no_issue(text: str) -> None:
    assert issues(text) == ()


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("第十一条 甲\n第十二条 乙\n第十四条 丙", ["clause.number"]),
        ("第12条 甲\n第12条 乙", ["clause.number"]),
        ("第１条 甲\n第３条 乙", ["clause.number"]),
        ("第一章 总\n第一条 甲\n第二章 分\n第三条 乙", ["clause.number"]),
        ("Article 12 Payment\n\nArticle 14 Delivery", ["clause.number"]),
        ("Article 2. A\nArticle 1. B\nArticle 0. C", ["clause.number"]),
        ("Section Twelve: Price\nSection Fourteen: Term", ["clause.number"]),
        ("ARTICLE I\n\nARTICLE III", ["clause.number"]),
        ("1.1 Goods\n1.2 Services\n1.4 Price", ["clause.number"]),
        ("1.1 Goods\n1.1.1 Small\n1.1.3 Large", ["clause.number"]),
        ("2. Price\n2.1 Amount\n2.3 Term", ["clause.number"]),
        ("1. Scope\n2. Price\n4. Term", ["clause.number"]),
        ("一、背景\n二、目标\n四、计划", ["clause.number"]),
        ("Due on 2025-02-30.", ["date.exists"]),
        ("Due on February 30, 2025 or 31 April.", ["date.exists", "date.exists"]),
        ("Due on 31/04/2025, at 2025-04-31T10:00.", ["date.exists", "date.exists"]),
        ("于2025年2月30日到期", ["date.exists"]),
        ("于二〇二五年二月三十日到期", ["date.exists"]),
        ("于13月1日到期", ["date.exists"]),
        ("人民币壹万贰仟元整（¥12,500.00）", ["amount.words"]),
        ("¥10,000.00（大写：人民币壹万零伍拾元整）", ["amount.words"]),
        ("金额壹佰元叁角（￥100.50）", ["amount.words"]),
        ("twelve thousand (12,500) units", ["amount.words"]),
        ("thirty (13) days", ["amount.words"]),
        ("USD 1,250.00 (one thousand two hundred fifty dollars and fifty cents)", ["amount.words"]),
        ("| a | b |\n|---|---|\n| 1 |\n| 1 | 2 | 3 |", ["table.length", "table.length"]),
        ("```csv\na,b\n1\n```", ["table.length"]),
        ("Article 1 Scope\nSee Article 14.", ["citation.clause"]),
        ("第一条 目的\n按第十四条执行", ["citation.clause"]),
        ("1. Scope\n1.1 Goods\nSee Section 1.7.", ["citation.clause"]),
        ("Section 1.1 Goods\nSection 1.4 Services", ["clause.number"]),
        ("第2.1条 价格\n第2.3条 期限", ["clause.number"]),
        ("人民币（大写）壹万贰仟元整，（小写）¥12,500.00元", ["amount.words"]),
        ("小写：¥300.00 大写：人民币叁佰元伍角整", ["amount.words"]),
        ("百分之十五（50%）", ["amount.words"]),
        ("三十（13）日内", ["amount.words"]),
        ("叁拾天（13天）", ["amount.words"]),
        ("第一条 依据\n见《民法典》第五百条。按第九条办理。", ["citation.clause"]),
        ("As shown [3].\n\n[1] Smith\n[2] Jones", ["citation.note"]),
    ],
)
def test_what_is_wrong_in_a_text_is_found_and_nothing_else(text: str, rules: list[str]) -> None:
    found = issues(text)
    assert [issue.rule for issue in found] == rules
    assert all("line" in issue.message for issue in found)


def test_rules_look_into_the_fields_of_a_value() -> None:
    rule = Rule(TEXT, json.dumps({"pointer": "/notes/*", "dates": True}))
    verdict = VALIDATOR.validate('{"notes": ["on 2025-02-30", "on 2025-02-28"]}', Constraint(), [rule])
    assert [(issue.pointer, issue.rule) for issue in verdict.issues] == [("/notes/0", "date.exists")]


def test_header_and_numbers_of_tables_are_checked_where_asked() -> None:
    text = "| item | price |\n|--|--|\n| a | 1,200.50 |\n| b | cheap |\n| c | – |"
    assert [issue.rule for issue in issues(text, tables={"numeric": ["price"]})] == ["table.numeric"]
    assert [issue.rule for issue in issues(text, tables={"header": ["item", "cost"]})] == ["table.header"]
    assert [issue.rule for issue in issues("a,b\n1,2\n3", tables={"csv": True})] == ["table.length"]


def test_citations_are_held_against_given_clauses_notes_and_ids() -> None:
    clauses = {"clauses": True, "known_clauses": ["Article 1", "第二条", "3"]}
    assert [issue.rule for issue in issues("See Article 3 and Article 4.", citations=clauses)] == ["citation.clause"]
    assert issues("依第二条", citations=clauses) == ()
    assert [issue.rule for issue in issues("So [1] and [4].", citations={"num_notes": 3})] == ["citation.note"]
    ids = {"ids": {"keys": ["DOC-2024-001", "DOC-2024-017"]}}
    found = issues("See DOC-2024-001, DOC-2024-018 and plain words, 2024.", citations=ids)
    assert [issue.rule for issue in found] == ["citation.id"]
    assert "DOC-2024-017" in found[0].message
    ids = {"ids": {"keys": ["合同2024第7号", "X1"]}}
    assert [issue.rule for issue in issues("按合同2024第9号与合同2024第7号、X1。", citations=ids)] == ["citation.id"]


@pytest.mark.parametrize(
    "text",
    [
        "one " * 60_000,
        "one hundred and " * 20_000,
        "第" * 200_000,
        "第一条" * 60_000,
        "一" * 200_000 + "月",
        "1.1.1 " * 40_000,
        "| " * 100_000 + "\n" + "|-" * 100_000,
        "[1" * 80_000,
        "Article 1, 2, " * 15_000,
        "-" * 200_000 + "\n|" * 5,
        "1,111" * 40_000,
        "(" * 200_000,
        "A-1 " * 50_000,
        "12 " * 70_000,
        " " * 200_000,
        "`" * 199_999,
        "\n" * 200_000,
        "人民币" * 60_000,
        "壹" * 200_000 + "元",
        "january " * 25_000,
    ],
    ids=lambda text: text[:8].strip() or "spaces",
)
def test_a_hostile_text_is_read_in_linear_time(text: str) -> None:
    asked = {**ALL, "citations": {**ALL["citations"], "ids": {"keys": ["A-1-B"]}}}  # type: ignore[dict-item]
    started_s = time.process_time()
    issues(text, **asked)
    assert time.process_time() - started_s < 10, "far more than linear time takes, even on a busy machine"
