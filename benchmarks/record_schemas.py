"""Schemas of business records, as callers ask for them: named fields of plain types, all required, nothing besides."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from benchmarks.schema_cases import SchemaCase, compact

RECORDS = {
    "purchase order": ("order_number", "supplier_name", "delivery_date", "total_amount", "currency", "payment_terms"),
    "customer": ("first_name", "last_name", "email_address", "phone_number", "date_of_birth", "loyalty_status"),
    "invoice": ("invoice_number", "issue_date", "due_date", "net_amount", "tax_amount", "gross_amount", "currency"),
    "employment contract": ("employee_name", "job_title", "start_date", "annual_salary", "notice_period_weeks"),
    "shipment": ("tracking_number", "carrier", "weight_kg", "destination_city", "destination_country", "is_insured"),
    "product": ("product_name", "manufacturer", "unit_price", "stock_quantity", "category", "is_available"),
    "support ticket": ("subject", "description", "priority", "reported_by", "created_on", "is_resolved"),
    "meeting": ("topic", "room", "organizer_name", "duration_minutes", "participants", "is_remote"),
    "vehicle": ("manufacturer", "model_name", "year_built", "mileage_km", "fuel_type", "registration_number"),
    "insurance claim": ("claim_number", "policy_holder", "incident_date", "estimated_damage", "claim_status"),
}
EXTRAS = ("internal_comment", "reference_number", "responsible_department", "last_modified_by", "approval_required")
DATE = {"type": "string", "pattern": "^20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])$"}
ENUMS = {
    "currency": ["EUR", "USD", "CNY"], "priority": ["low", "medium", "high"], "fuel_type": ["petrol", "diesel"],
    "claim_status": ["open", "accepted", "rejected"], "loyalty_status": ["bronze", "silver", "gold"],
}  # fmt: skip
NUMBERS = ("amount", "salary", "price", "damage", "weight")
INTEGERS = ("quantity", "minutes", "weeks", "year", "mileage")


def records(seed: int, count: int) -> Iterator[SchemaCase]:
    """`count` schemas; everything follows from the seed."""
    for number in range(count):
        dice = random.Random(f"{seed} {number}")
        title = dice.choice(list(RECORDS))
        names = dice.sample(RECORDS[title], dice.randint(4, len(RECORDS[title]))) + dice.sample(
            EXTRAS, dice.randint(0, 2)
        )
        properties = {name: _field(name) for name in names}
        if dice.random() < 0.3:
            inner = {name: _field(name) for name in ("street_name", "postal_code", "city_name")}
            properties["postal_address"] = _object(inner)
        if dice.random() < 0.3:
            properties["keywords"] = {"type": "array", "items": {"type": "string", "maxLength": 20}, "maxItems": 3}
        yield SchemaCase(f"{title} {number}", compact(_object(properties)), ())


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def _field(name: str) -> dict[str, Any]:
    if name in ENUMS:
        return {"enum": ENUMS[name]}
    if name.startswith("is_") or name.endswith("_required"):
        return {"type": "boolean"}
    if "date" in name or name.endswith("_on"):
        return DATE
    if any(word in name for word in NUMBERS):
        return {"type": "number", "minimum": 0, "maximum": 1_000_000}
    if any(word in name for word in INTEGERS):
        return {"type": "integer", "minimum": 0, "maximum": 100_000}
    if name == "participants":
        return {"type": "array", "items": {"type": "string", "maxLength": 30}, "minItems": 1, "maxItems": 4}
    return {"type": "string", "minLength": 1, "maxLength": 40}
