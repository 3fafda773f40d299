"""deploy/alerts: every rule parses as PromQL and asks only for metrics and label values that the gateway has."""

from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client import REGISTRY

import services.gateway.http.metrics
import services.gateway.metrics
from stagemesh.api.common.v1 import common_pb2

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "deploy" / "alerts").glob("*.yaml"))
MODULES = (services.gateway.metrics, services.gateway.http.metrics)  # importing them registers their metrics
OUTCOMES = {name.removeprefix("OUTCOME_").lower() for name in common_pb2.Outcome.DESCRIPTOR.values_by_name}
STATUSES = {name.removeprefix("STAGE_STATUS_").lower() for name in common_pb2.StageStatus.DESCRIPTOR.values_by_name}


def rules() -> list[dict[str, Any]]:
    return [
        rule
        for path in FILES
        for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
        for rule in group["rules"]
    ]


def selectors(expression: str) -> list[Any]:
    """All vector selectors of a PromQL expression."""
    found: list[Any] = []

    def visit(node: Any) -> bool:
        vector = node.vector_selector if isinstance(node, promql_parser.MatrixSelector) else node
        if isinstance(vector, promql_parser.VectorSelector):
            found.append(vector)
        return True

    promql_parser.walk(promql_parser.parse(expression), visit)
    return found


def known_metrics() -> dict[str, set[str]]:
    """Names as Prometheus stores them, with their labels."""
    found: dict[str, set[str]] = {}
    for collector in set(REGISTRY._collector_to_names):
        labels = set(getattr(collector, "_labelnames", ()))
        for name in REGISTRY._collector_to_names[collector]:
            found[name] = labels
    return found


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_a_rule_parses_and_asks_for_metrics_and_labels_that_there_are(rule: dict[str, Any]) -> None:
    found, metrics = selectors(rule["expr"]), known_metrics()
    assert found
    for selector in found:
        assert selector.name in metrics, f"{selector.name} is no metric of the gateway"
        assert {matcher.name for matcher in selector.matchers.matchers} <= metrics[selector.name]


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_a_rule_says_how_bad_it_is_and_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"warning", "critical"}
    assert rule["annotations"]["summary"]
    assert rule["annotations"]["description"]


def test_values_of_outcomes_and_statuses_are_spelled_as_the_gateway_spells_them() -> None:
    for rule in rules():
        for selector in selectors(rule["expr"]):
            for matcher in selector.matchers.matchers:
                known = {"outcome": OUTCOMES, "status": STATUSES}.get(matcher.name)
                assert known is None or set(matcher.value.split("|")) <= known, (rule["alert"], matcher.value)


def test_the_two_shares_that_operators_watch_have_a_rule_at_3_and_5_percent() -> None:
    by_name = {rule["alert"]: rule["expr"] for rule in rules()}
    assert by_name["StagemeshAnswersDegraded"].endswith("> 0.03")
    assert by_name["StagemeshStageFailing"].endswith("> 0.05")
    assert "[1h]" in by_name["StagemeshAnswersDegraded"]
