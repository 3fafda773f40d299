"""Collected corrections: whose they are, and what erasure leaves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from services.corrector.training.collect import Collected, take
from services.corrector.training.store import Case, CaseStore
from stagemesh.api.events.v1 import events_pb2
from stagemesh.runtime.envelope import new_envelope
from stagemesh.runtime.topics import CORRECTIONS

CASE = Case(
    tenant_id="acme", event_id="e1", user_id="ann", session_id="s1", occurred_ms=1_000, text="{", schema="{}",
    source="the total is 5", value='{"total": 5}', valid=True, certain=True,
)  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Iterator[CaseStore]:
    opened = CaseStore(tmp_path / "corrections.sqlite")
    yield opened
    opened.close()


def correction(tenant_id: str, user_id: str, total: int) -> events_pb2.Envelope:
    envelope = new_envelope(CORRECTIONS, tenant_id=tenant_id, request_id=f"r{total}")
    body = envelope.correction
    body.user_id = user_id
    body.request.text, body.request.source_text = '{"total": "5"}', f"the total is {total}"
    body.request.constraint.json_schema = '{"type": "object"}'
    body.correction.value = json.dumps({"total": total})
    body.correction.valid = body.correction.certain = True
    return envelope


def test_a_case_that_comes_twice_is_kept_once(store: CaseStore) -> None:
    assert store.add(CASE)
    assert not store.add(CASE)
    assert store.count("acme").cases == 1


def test_an_erased_users_cases_are_gone_and_do_not_come_back(store: CaseStore) -> None:
    store.add(CASE)
    store.add(replace(CASE, event_id="e2", user_id="bob"))
    assert store.erase("acme", "user", "ann", 2_000) == 1
    assert not store.add(replace(CASE, event_id="e3", occurred_ms=1_500))  # came late
    assert store.add(replace(CASE, event_id="e4", occurred_ms=2_500))  # is new
    assert store.count("acme").cases == 2


def test_an_erased_session_takes_its_cases_of_that_tenant_only(store: CaseStore) -> None:
    store.add(CASE)
    store.add(replace(CASE, event_id="e2", tenant_id="other"))
    assert store.erase("acme", "session", "s1", 2_000) == 1
    assert store.tenants() == ["other"]


def test_what_is_erased_is_not_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "corrections.sqlite"
    store = CaseStore(path)
    store.add(replace(CASE, source="a very private sentence"))
    assert b"very private" in path.read_bytes()
    store.erase("acme", "user", "ann", 2_000)
    store.close()
    assert b"very private" not in path.read_bytes()
    assert path.stat().st_mode & 0o077 == 0


def test_a_tenant_trains_on_its_own_cases_and_never_on_those_held_out(store: CaseStore) -> None:
    for number in range(40):
        store.add(replace(CASE, event_id=f"e{number}", source=f"the total is {number}"))
        store.add(replace(CASE, event_id=f"o{number}", tenant_id="other", source="another's"))
    training = {source for source, _, _ in store.certain("acme", held_out=False)}
    held_out = {source for source, _, _ in store.certain("acme", held_out=True)}
    assert training
    assert held_out
    assert not training & held_out
    assert "another's" not in training | held_out


def test_only_tenants_that_share_are_collected(store: CaseStore) -> None:
    done = Collected()
    take(correction("acme", "ann", 1), frozenset({"acme"}), store, done)
    take(correction("other", "bob", 2), frozenset({"acme"}), store, done)
    assert (done.added, done.ignored, store.tenants()) == (1, 1, ["acme"])


def test_a_tenant_that_shares_no_longer_loses_what_was_collected(store: CaseStore) -> None:
    store.add(CASE)
    assert store.keep_only([]) == ["acme"]
    assert store.tenants() == []


def test_an_erasure_is_taken_also_of_tenants_that_do_not_share(store: CaseStore) -> None:
    store.add(CASE)
    envelope = new_envelope(CORRECTIONS, tenant_id="acme", request_id="r")
    envelope.user_erased.user_id = "ann"
    done = Collected()
    take(envelope, frozenset(), store, done)
    assert (done.erased, store.tenants()) == (1, [])
