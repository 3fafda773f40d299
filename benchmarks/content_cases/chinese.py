"""Chinese business objects with prose that tells them: contracts, work tickets, loans, purchases."""

from __future__ import annotations

import random

from benchmarks.content_cases.story import Story, closed
from benchmarks.content_cases.words import ZH_CITIES, ZH_COMPANIES, ZH_GOODS, ZH_PERSONS, code, day, told_day_zh

TEXT, NUMBER, WHOLE, TRUTH = {"type": "string"}, {"type": "number"}, {"type": "integer"}, {"type": "boolean"}
DAY = {"type": "string", "format": "date"}


def contract(draw: random.Random) -> Story:
    first, second = draw.sample(ZH_PERSONS, 2)
    number, on, amount = code(draw, "HT"), day(draw), draw.randint(100, 99_999) * 10
    months, taxed = draw.randint(3, 60), draw.random() < 0.5
    schema = closed(
        合同编号={"type": "string", "pattern": "^HT-[0-9]{5}$"},
        甲方=TEXT,
        乙方=TEXT,
        签订日期=DAY,
        金额=NUMBER,
        期限月数=WHOLE,
        含税=TRUTH,
    )
    value = {
        "合同编号": number,
        "甲方": first,
        "乙方": second,
        "签订日期": on,
        "金额": amount,
        "期限月数": months,
        "含税": taxed,
    }
    source = (
        f"合同编号{number}，甲方为{first}，乙方为{second}，于{told_day_zh(draw, on)}签订。"
        f"合同金额{amount:.2f}元，期限{months}个月，价格{'含税' if taxed else '不含税'}。"
    )
    return Story("zh", "contract", schema, value, source)


def ticket(draw: random.Random) -> Story:
    number, customer, city, thing = (
        code(draw, "GD", 6),
        draw.choice(ZH_PERSONS),
        draw.choice(ZH_CITIES),
        draw.choice(ZH_GOODS),
    )
    quantity, price, due = draw.randint(2, 99), round(draw.uniform(5, 3000), 2), day(draw)
    schema = closed(
        ticket_no=TEXT, customer_name=TEXT, city=TEXT, product=TEXT, quantity=WHOLE, unit_price=NUMBER, due_date=DAY
    )
    value = {
        "ticket_no": number, "customer_name": customer, "city": city, "product": thing,
        "quantity": quantity, "unit_price": price, "due_date": due,
    }  # fmt: skip
    source = (
        f"工单{number}：{city}的客户{customer}订购{thing}{quantity}件，单价{price}元，"
        f"要求{told_day_zh(draw, due)}前交付。"
    )
    return Story("zh", "ticket", schema, value, source)


def loan(draw: random.Random) -> Story:
    borrower, lender, paid, due = draw.choice(ZH_PERSONS), draw.choice(ZH_COMPANIES), day(draw), day(draw)
    principal, months, rate = draw.randint(5, 90) * 10_000, draw.randint(6, 60), round(draw.uniform(2, 9), 2)
    schema = closed(
        借款人=TEXT,
        贷款机构=TEXT,
        本金=NUMBER,
        年利率=NUMBER,
        期限={"type": "integer", "description": "单位：月"},
        放款日期=DAY,
        到期日期=DAY,
    )
    value = {
        "借款人": borrower,
        "贷款机构": lender,
        "本金": principal,
        "年利率": rate,
        "期限": months,
        "放款日期": paid,
        "到期日期": due,
    }
    source = draw.choice(
        (
            f"借款人{borrower}向{lender}借款，本金{principal}元，年利率{rate}%，期限{months}个月。"
            f"放款日期为{told_day_zh(draw, paid)}，到期日期为{told_day_zh(draw, due)}。",
            f"{lender}于{told_day_zh(draw, paid)}向借款人{borrower}放款{principal // 10_000}万元，"
            f"贷款期限{months}个月，年利率为{rate}%，应于{told_day_zh(draw, due)}到期归还。"
            f"此前的一笔贷款为{draw.randint(1, 4)}万元。",
        )
    )
    return Story("zh", "loan", schema, value, source)


def purchase(draw: random.Random) -> Story:
    buyer, seller = draw.sample(ZH_COMPANIES, 2)
    thing, quantity, price, on = draw.choice(ZH_GOODS), draw.randint(3, 200), draw.randint(10, 900), day(draw)
    schema = closed(
        buyer={"type": "string", "description": "采购方"}, seller={"type": "string", "description": "供应商"},
        item=TEXT, quantity=WHOLE, unit_price=NUMBER, total=NUMBER, delivery_date=DAY,
    )  # fmt: skip
    value = {
        "buyer": buyer, "seller": seller, "item": thing, "quantity": quantity,
        "unit_price": price, "total": quantity * price, "delivery_date": on,
    }  # fmt: skip
    source = draw.choice(
        (
            f"采购方{buyer}向供应商{seller}采购{thing}{quantity}台，单价{price}元，总价{quantity * price}元，"
            f"{told_day_zh(draw, on)}前交货。",
            f"{buyer}（采购方）与{seller}（供应商）约定：{thing}共{quantity}件，每件{price}元，"
            f"合计{quantity * price}元，交货日期{told_day_zh(draw, on)}。"
            f"违约金为{draw.randint(1, 9) * 100}元。",
        )
    )
    return Story("zh", "purchase", schema, value, source)


STORIES = (contract, ticket, loan, purchase)
