"""Which adapter answers a tenant's request, and which one runs beside it."""

from __future__ import annotations

import pytest

from services.corrector.adapters.in_use import SHARED, Adapter, InUse, Lineup
from stagemesh.api.common.v1 import common_pb2

OLD = Adapter(name="corrector", generation=3, revision="a" * 64)
NEW = Adapter(name="corrector-candidate", generation=1, revision="b" * 64)
IDS = [f"request-{number}" for number in range(4_000)]


def test_a_candidate_without_a_share_only_runs_beside_the_present_one() -> None:
    lineup = Lineup(present=OLD, candidate=NEW)
    assert {lineup.answering(each) for each in IDS[:50]} == {OLD}
    assert {lineup.beside(each) for each in IDS[:50]} == {NEW}


@pytest.mark.parametrize("share", [0.05, 0.5, 1.0])
def test_a_canary_answers_its_share_and_the_other_one_runs_beside_it(share: float) -> None:
    lineup = Lineup(present=OLD, candidate=NEW, share=share)
    answered = [each for each in IDS if lineup.answering(each) is NEW]
    assert len(answered) == pytest.approx(share * len(IDS), abs=0.02 * len(IDS))
    assert all(lineup.beside(each) is OLD for each in answered)
    assert [lineup.answering(each) for each in IDS] == [lineup.answering(each) for each in IDS]


def test_a_larger_share_keeps_the_requests_of_the_smaller_one() -> None:
    few, many = (Lineup(present=OLD, candidate=NEW, share=share) for share in (0.1, 0.3))
    assert {each for each in IDS if few.is_canary(each)} < {each for each in IDS if many.is_canary(each)}


def test_without_a_candidate_nothing_runs_beside_and_without_any_adapter_nothing_answers() -> None:
    assert Lineup(present=OLD, share=0.5).beside("request-1") is None
    assert Lineup(present=OLD, share=0.5).answering("request-1") is OLD
    assert InUse().of("acme") == Lineup()


def test_a_tenants_adapter_is_asked_for_that_tenant_alone() -> None:
    own = Adapter(name="corrector.acme", generation=1, revision="c" * 64)
    in_use = InUse(lineups={SHARED: Lineup(present=OLD), "acme": Lineup(present=own)})
    assert in_use.of("acme").present is own
    assert in_use.of("globex").present is OLD
    assert in_use.of("").present is OLD


def test_a_tenants_first_candidate_is_compared_with_the_shared_adapter() -> None:
    in_use = InUse(lineups={SHARED: Lineup(present=OLD), "acme": Lineup(candidate=NEW, share=0.2)})
    assert in_use.of("acme") == Lineup(present=OLD, candidate=NEW, share=0.2)
    assert in_use.of("globex") == Lineup(present=OLD)


def test_an_identity_with_an_adapter_names_its_files_and_leaves_the_base_as_it_was() -> None:
    base = common_pb2.ModelIdentity(model="small", revision="r")
    chosen = OLD.chosen_on(base)
    assert (chosen.model, chosen.revision, chosen.adapter, chosen.adapter_generation) == ("small", "r", "corrector", 3)
    assert chosen.adapter_revision == "a" * 64
    assert not base.adapter
