"""The required tests of the official JSON Schema test suite, for the two dialects that are promised."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stagemesh.validation.limits import Limits
from stagemesh.validation.schema import CompiledSchema, compile_schema
from stagemesh.validation.verdict import Severity

SUITE = Path(__file__).parents[4] / "shared" / "data" / "json-schema-test-suite"
REMOTE_BASE = "http://localhost:1234/"
DIALECTS = {"draft7": "http://json-schema.org/draft-07/schema#", "draft2020-12": ""}
LIMITS = Limits()


def groups() -> Iterator[Any]:
    for draft in DIALECTS:
        for path in sorted((SUITE / "tests" / draft).glob("*.json")):
            yield pytest.param(draft, path, id=f"{draft}/{path.stem}")


def retrieve(uri: str) -> Any:
    path = SUITE / "remotes" / uri.removeprefix(REMOTE_BASE).split("#", 1)[0]
    return json.loads(path.read_text(encoding="utf-8"))


def is_valid(compiled: CompiledSchema, value: Any) -> bool:
    return all(issue.severity is Severity.WARNING for issue in compiled.issues(value))


def test_the_suite_is_there_where_it_must_be() -> None:
    if not SUITE.is_dir():
        if os.environ.get("CI") == "true":
            pytest.fail(f"the official suite is not at {SUITE}")
        pytest.skip("the official suite lies beside a full checkout only")
    assert len(list(groups())) > 60


@pytest.mark.parametrize(("draft", "path"), list(groups()))
def test_required_tests_agree_with_the_library(draft: str, path: Path) -> None:
    wrong = []
    for group in json.loads(path.read_text(encoding="utf-8")):
        schema = group["schema"]
        if isinstance(schema, dict) and DIALECTS[draft]:
            schema = {"$schema": DIALECTS[draft], **schema}
        compiled = compile_schema(json.dumps(schema), LIMITS, retriever=retrieve)
        wrong += [
            f"{group['description']}: {test['description']}"
            for test in group["tests"]
            if (is_valid(compiled, test["data"]), not compiled.issues(test["data"], brief=True)) != (test["valid"],) * 2
        ]
    assert wrong == []
