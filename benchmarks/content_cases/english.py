"""English business objects with prose that tells them: leases, deliveries, claims, shipments, orders, employees."""

from __future__ import annotations

import random
from typing import Any

from benchmarks.content_cases.story import Story, closed
from benchmarks.content_cases.words import CITIES, COMPANIES, GOODS, PERSONS, code, day, told_day

TEXT, NUMBER, WHOLE, TRUTH = {"type": "string"}, {"type": "number"}, {"type": "integer"}, {"type": "boolean"}
DAY = {"type": "string", "format": "date"}


def lease(draw: random.Random) -> Story:
    landlord, tenant = draw.sample(PERSONS, 2)
    start, end, rent = day(draw), day(draw), draw.randint(600, 4000)
    deposit, pets = rent * draw.choice((2, 3)) + draw.randint(1, 99), draw.random() < 0.5
    schema = closed(
        landlord=TEXT,
        tenant=TEXT,
        monthly_rent=NUMBER,
        deposit=NUMBER,
        start_date=DAY,
        end_date=DAY,
        pets_allowed=TRUTH,
    )
    value = {
        "landlord": landlord, "tenant": tenant, "monthly_rent": rent, "deposit": deposit,
        "start_date": start, "end_date": end, "pets_allowed": pets,
    }  # fmt: skip
    first, last = told_day(draw, start), told_day(draw, end)
    source = draw.choice(
        (
            f"This lease is made between {landlord} (the landlord) and {tenant} (the tenant). The term begins on "
            f"{first} and ends on {last}. "
            f"The monthly rent is EUR {rent:,}, and a deposit of EUR {deposit:,} is due at signing. Pets are "
            f"{'allowed' if pets else 'not allowed'}.",
            f"Dear {tenant}, as agreed, {landlord} rents the flat to you from {first} until {last}. You pay "
            f"{rent} euros per month; the deposit "
            f"amounts to {deposit} euros. {'You may keep pets.' if pets else 'Pets are not allowed.'} The "
            f"previous tenant paid {rent - 50} euros.",
        )
    )
    return Story("en", "lease", schema, value, source)


def delivery(draw: random.Random) -> Story:
    supplier, contact, on, before = draw.choice(COMPANIES), draw.choice(PERSONS), day(draw), day(draw)
    crates, gross = draw.randint(10, 90), round(draw.uniform(50, 900), 1)
    net, note = round(gross * 0.9, 1), code(draw, "DN", 6)
    schema = closed(
        supplier=TEXT,
        contact_person=TEXT,
        delivered_on=DAY,
        crates=WHOLE,
        gross_weight_kg=NUMBER,
        net_weight_kg=NUMBER,
        delivery_note=TEXT,
    )
    value = {
        "supplier": supplier, "contact_person": contact, "delivered_on": on, "crates": crates,
        "gross_weight_kg": gross, "net_weight_kg": net, "delivery_note": note,
    }  # fmt: skip
    source = draw.choice(
        (
            f"On {told_day(draw, on)} {supplier} delivered {crates} crates (delivery note {note}). The previous "
            f"delivery on {told_day(draw, before)} had "
            f"{crates - draw.randint(1, 8)} crates. Gross weight {gross} kg, net weight {net} kg. Questions go to "
            f"{contact}.",
            f"Goods received. Supplier: {supplier}. Contact: {contact}. Delivery note {note} of "
            f"{told_day(draw, on)}: {crates} crates, {gross} kg gross "
            f"and {net} kg net. Our own order was placed on {told_day(draw, before)}.",
        )
    )
    return Story("en", "delivery", schema, value, source)


def claim(draw: random.Random) -> Story:
    holder, on, amount = draw.choice(PERSONS), day(draw), round(draw.uniform(50, 90_000), 2)
    mail = f"{holder.split()[0].lower().encode('ascii', 'ignore').decode()}{draw.randint(1, 99)}@example.com"
    number, currency, status = (
        code(draw, "CLM", 6),
        draw.choice(("EUR", "USD", "GBP")),
        draw.choice(("open", "approved", "rejected")),
    )
    schema = closed(
        claim_number=TEXT, policy_holder=TEXT, incident_date=DAY, claimed_amount=NUMBER,
        currency={"enum": ["EUR", "USD", "GBP"]}, email={"type": "string", "format": "email"},
        status={"enum": ["open", "approved", "rejected"]},
    )  # fmt: skip
    value = {
        "claim_number": number, "policy_holder": holder, "incident_date": on, "claimed_amount": amount,
        "currency": currency, "email": mail, "status": status,
    }  # fmt: skip
    source = draw.choice(
        (
            f"Claim {number} was filed by {holder} after an incident on {told_day(draw, on)}. The amount claimed "
            f"is {currency} {amount:,.2f}. "
            f"You can write to {mail}. The claim is currently {status}.",
            f"Policy holder: {holder} ({mail}). Re: claim {number}. We confirm that the incident of "
            f"{told_day(draw, on)} was reported. Claimed amount: "
            f"{currency} {amount:,.2f}. Status: {status}.",
        )
    )
    return Story("en", "claim", schema, value, source)


def shipment(draw: random.Random) -> Story:
    number, recipient, city, on = code(draw, "CN"), draw.choice(PERSONS), draw.choice(CITIES), day(draw)
    weight, parcels, fragile = round(draw.uniform(1.5, 900), 1), draw.randint(2, 40), draw.random() < 0.5
    schema = closed(
        consignment={"type": "string", "pattern": "^CN-[0-9]{5}$"},
        recipient=TEXT,
        destination=TEXT,
        weight_kg=NUMBER,
        parcels=WHOLE,
        fragile=TRUTH,
        dispatched_on=DAY,
    )
    value = {
        "consignment": number, "recipient": recipient, "destination": city, "weight_kg": weight,
        "parcels": parcels, "fragile": fragile, "dispatched_on": on,
    }  # fmt: skip
    source = (
        f"Hello team, consignment {number} for {recipient} goes to {city}. It consists of {parcels} parcels "
        f"weighing {weight} kg in total and was dispatched on "
        f"{told_day(draw, on)}. The goods are {'fragile, please handle with care' if fragile else 'not fragile'}."
    )
    return Story("en", "shipment", schema, value, source)


def order(draw: random.Random) -> Story:
    number, customer = code(draw, "SO", 6), draw.choice(PERSONS)
    lines = [
        {"description": thing, "quantity": draw.randint(1, 50), "unit_price": round(draw.uniform(3, 800), 2)}
        for thing in draw.sample(GOODS, draw.randint(2, 4))
    ]
    total = round(sum(line["quantity"] * line["unit_price"] for line in lines), 2)
    line_schema = closed(description=TEXT, quantity=WHOLE, unit_price=NUMBER)
    schema = closed(
        order_id=TEXT, customer=TEXT, lines={"type": "array", "items": line_schema, "minItems": 1}, total=NUMBER
    )
    value: dict[str, Any] = {"order_id": number, "customer": customer, "lines": lines, "total": total}
    told = "; ".join(f"{line['quantity']} x {line['description']} at {line['unit_price']:.2f} each" for line in lines)
    return Story("en", "order", schema, value, f"Order {number} placed by {customer}: {told}. Total {total:.2f}.")


STORIES = (lease, delivery, claim, shipment, order)
