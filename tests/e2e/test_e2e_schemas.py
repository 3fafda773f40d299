"""`stagemesh generate --schema`: ten schemas of five typed fields in a row, each answer valid."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from mesh_support import Mesh

TEXT: dict[str, Any] = {"type": "string", "maxLength": 24}
INTEGER: dict[str, Any] = {"type": "integer", "minimum": 0, "maximum": 10_000}
NUMBER: dict[str, Any] = {"type": "number"}
FLAG: dict[str, Any] = {"type": "boolean"}
DATE: dict[str, Any] = {"type": "string", "pattern": "^20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])$"}


def choice(*values: str) -> dict[str, Any]:
    return {"enum": list(values)}


def words(most: int) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string", "maxLength": 12}, "minItems": 1, "maxItems": most}


SCHEMAS = {
    "a person": {"name": TEXT, "age": INTEGER, "email": TEXT, "active": FLAG, "score": NUMBER},
    "an invoice": {"id": TEXT, "total": NUMBER, "currency": choice("EUR", "USD"), "paid": FLAG, "date": DATE},
    "a book": {"title": TEXT, "author": TEXT, "pages": INTEGER, "genres": words(3), "in_print": FLAG},
    "a city": {"name": TEXT, "country": TEXT, "population": INTEGER, "capital": FLAG, "area": NUMBER},
    "a ticket": {"subject": TEXT, "priority": choice("low", "high"), "tags": words(2), "open": FLAG, "votes": INTEGER},
    "a recipe": {"title": TEXT, "minutes": INTEGER, "vegan": FLAG, "ingredients": words(4), "rating": NUMBER},
    "a car": {"maker": TEXT, "model": TEXT, "year": INTEGER, "electric": FLAG, "price": NUMBER},
    "a meeting": {"topic": TEXT, "date": DATE, "room": choice("A", "B", "C"), "minutes": INTEGER, "remote": FLAG},
    "a product": {"sku": {"type": "string", "pattern": "^[A-Z]{3}-[0-9]{4}$"}, "name": TEXT, "price": NUMBER,
                  "stock": INTEGER, "sale": FLAG},
    "a contract": {"party": {"type": "object", "properties": {"name": TEXT}, "required": ["name"],
                             "additionalProperties": False},
                   "clauses": INTEGER, "signed": FLAG, "value": NUMBER, "law": choice("DE", "CN", "US")},
}  # fmt: skip


@pytest.mark.parametrize("what", SCHEMAS)
def test_an_answer_under_a_schema_validates(mesh: Mesh, tmp_path: Path, what: str) -> None:
    fields = SCHEMAS[what]
    schema = {"type": "object", "properties": fields, "required": [*fields], "additionalProperties": False}
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(schema))
    shown = mesh.command("generate", "--prompt", f"Invent {what}.", "--schema", str(file), "--json")
    answer = json.loads(shown.stdout)
    assert answer["outcome"] == "complete"
    assert answer["validation"]["valid"] is True
    assert jsonschema_rs.is_valid(schema, json.loads(answer["text"]))
    assert {stage["name"]: stage["status"] for stage in answer["stages"]}["validate"] == "ok"
