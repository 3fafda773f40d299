"""The adapters in use: changed in the ledger with an audit, known to the corrector, compared beside the answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from services.corrector.adapters.beside import AdaptersBeside
from services.corrector.adapters.config import AdaptersConfig
from services.corrector.adapters.in_use import Adapter
from services.corrector.adapters.judged import Judged
from services.corrector.adapters.operations import Held, Needs, Operations
from services.corrector.adapters.origin import Origin, write_origin
from services.corrector.adapters.record import Record
from services.corrector.adapters.store import RECORDS, AdapterStore, Change
from services.corrector.adapters.tally import Tally
from services.corrector.adapters.watch import AdapterWatch
from services.corrector.proposals import Asked, Findings, Problem, Proposal
from services.corrector.repair import Repair
from stagemesh.runtime.deadline import Deadline
from stagemesh.runtime.errors import Forbidden, NotFound, Precondition, Unavailable
from stagemesh.runtime.redis_client import Redis
from stagemesh.validation.verdict import Verdict
from tests.contract.events_support import connected, eventually, running_valkey

BETTER = Judged(
    fields=120, candidate_right=100, present_right=80, only_candidate=25, only_present=5,
    candidate_sure=30, candidate_sure_right=30, present_sure=10, present_sure_right=10,
)  # fmt: skip
NO_NEEDS = Needs(fields=0, compared=0, answered=0)


class HeldByNobody:
    """Engines that hold what they are told to."""

    def __init__(self) -> None:
        self.names: dict[str, Held] = {}
        self.folders: dict[str, str] = {}

    async def load(self, name: str, folder: str) -> Held:
        before = self.names.get(name, Held(0, ""))
        revision = Path(folder).name.ljust(64, "0")
        if before.revision != revision:
            self.names[name] = Held(before.generation + 1, revision)
        self.folders[name] = folder
        return self.names[name]


class Model:
    """Proposes what each adapter is said to; an exception is raised."""

    def __init__(self, says: dict[str, str | Exception]) -> None:
        self.says = says
        self.asked: list[str] = []
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.slow = ""

    async def propose(self, problem: Problem, deadline: Deadline) -> Findings:
        adapter = problem.asked.adapter
        revision = adapter.revision.rstrip("0") if adapter else ""
        self.asked.append(revision)
        if revision == self.slow:
            await self.go_on.wait()
        said = self.says.get(revision, "")
        if isinstance(said, Exception):
            raise said
        return (
            Findings(proposals=(Proposal(pointer="/name", value=said, reason="said", confidence=0.9),))
            if said
            else Findings()
        )


@pytest.fixture(scope="module")
def valkey_url() -> Iterator[str]:
    with running_valkey() as url:
        yield url


@pytest.fixture
async def redis(valkey_url: str) -> AsyncIterator[Redis]:
    async with connected(valkey_url) as client:
        await client.flushall()
        yield client


@pytest.fixture
def store(redis: Redis) -> AdapterStore:
    return AdapterStore(redis)


@pytest.fixture
def operations(store: AdapterStore) -> Operations:
    return Operations(store, HeldByNobody(), "ann")


@pytest.fixture
async def watch(valkey_url: str, redis: Redis) -> AsyncIterator[AdapterWatch]:
    made = AdapterWatch(valkey_url, AdaptersConfig())
    yield made
    await made.close()


def folder(tmp_path: Path, name: str, tenant_id: str = "", calibration: object = None) -> Path:
    made = tmp_path / name
    write_origin(made, Origin(tenant_id=tenant_id, trained_ms=1_000))
    if calibration is not None:
        (made / "calibration.json").write_text(json.dumps(calibration))
    return made


def problem(request_id: str, tenant_id: str = "acme") -> Problem:
    return Problem(
        text="",
        value={},
        schema=True,
        source="s",
        asked=Asked(request_id=request_id, tenant_id=tenant_id),
    )


async def test_an_adapter_goes_from_candidate_over_canary_to_present_and_back(
    store: AdapterStore, operations: Operations, tmp_path: Path
) -> None:
    await operations.candidate("", folder(tmp_path, "one", calibration={"ranking": {"change": 0.99}}), BETTER)
    await operations.promote("", NO_NEEDS, stale=0, force=False)
    await operations.candidate("", folder(tmp_path, "two"), BETTER)
    assert (await operations.canary("", 0.1)).share == 0.1
    promoted = await operations.promote("", NO_NEEDS, stale=0, force=False)
    assert promoted.present is not None
    assert (promoted.present.adapter.name, promoted.candidate, promoted.share) == ("corrector.green", None, 0.0)
    assert promoted == await store.record("")
    back, what = await operations.rollback("")
    assert back.present is not None
    assert (back.present.adapter.name, what) == ("corrector.blue", "rollback")
    assert back.present.adapter.revision.startswith("one")
    assert back.present.adapter.calibration == {"ranking": {"change": 0.99}}
    none, _ = await operations.rollback("")
    assert none.present is None
    changes = await store.audit(10)
    assert [change.what for change in changes] == [
        "rollback", "rollback", "promote", "canary", "candidate", "promote", "candidate",
    ]  # fmt: skip
    assert {change.by for change in changes} == {"ann"}
    assert all(change.at_ms > 1_700_000_000_000 for change in changes)
    with pytest.raises(NotFound, match="no adapter is in use"):
        await operations.rollback("")


async def test_a_rollback_during_a_trial_takes_the_candidate_away_and_leaves_the_present_one(
    operations: Operations, tmp_path: Path
) -> None:
    await operations.candidate("", folder(tmp_path, "one"), BETTER)
    await operations.promote("", NO_NEEDS, stale=0, force=False)
    await operations.candidate("", folder(tmp_path, "two"), BETTER)
    record, what = await operations.rollback("")
    assert (what, record.candidate) == ("withdraw", None)
    assert record.present is not None
    assert record.present.adapter.revision.startswith("one")


async def test_a_candidate_that_is_not_better_is_refused_with_the_numbers_unless_forced(
    store: AdapterStore, operations: Operations, tmp_path: Path
) -> None:
    await operations.candidate("", folder(tmp_path, "one"), replace(BETTER, only_candidate=3, only_present=3))
    with pytest.raises(Precondition) as refused:
        await operations.promote("", Needs(), stale=2, force=False)
    assert refused.value.reason == "CANDIDATE_NOT_BETTER"
    for part in ("3 fields are right", "compared on 0 live", "answered 0 live", "2 of the tenant's corrections"):
        assert part in refused.value.message
    assert (await store.record("")).present is None
    assert (await operations.promote("", Needs(), stale=2, force=True)).present is not None
    assert "forced although 3 fields are right" in (await store.audit(1))[0].detail


async def test_a_tenants_adapter_serves_that_tenant_alone(operations: Operations, tmp_path: Path) -> None:
    own = folder(tmp_path, "own", tenant_id="acme")
    for scope in ("", "globex"):
        with pytest.raises(Forbidden, match="trained on corrections of acme"):
            await operations.candidate(scope, own, BETTER)
    record = await operations.candidate("acme", own, BETTER)
    assert record.candidate is not None
    assert record.candidate.adapter.name == "corrector.blue.acme"
    assert record.candidate.trained_ms == 1_000


async def test_of_two_changes_at_once_one_is_refused_and_leaves_no_line(store: AdapterStore) -> None:
    record = Record(scope="")
    change = Change(what="canary", scope="", by="ann", detail="")
    await store.put(record, change)
    with pytest.raises(Precondition, match="somebody else changed"):
        await store.put(record, change)
    assert len(await store.audit(10)) == 1


async def test_a_corrector_knows_of_a_change_within_its_poll_and_keeps_what_it_knew_without_the_ledger(
    watch: AdapterWatch, redis: Redis, operations: Operations, tmp_path: Path
) -> None:
    await operations.candidate("", folder(tmp_path, "one"), BETTER)
    await operations.promote("", NO_NEEDS, stale=0, force=False)
    watch.start()

    async def is_known() -> bool:
        return watch.in_use.of("acme").present is not None

    await eventually(is_known, "the adapter is in use")
    known = watch.in_use
    await redis.hset(RECORDS, "*", b"no record")
    with pytest.raises(ValueError, match="Expecting value"):
        await watch.refresh()
    assert watch.in_use == known


async def test_the_candidate_is_asked_beside_the_answer_compared_and_counted(
    watch: AdapterWatch, store: AdapterStore, operations: Operations, tmp_path: Path
) -> None:
    await operations.candidate("", folder(tmp_path, "one"), BETTER)
    await operations.promote("", NO_NEEDS, stale=0, force=False)
    record = await operations.candidate("", folder(tmp_path, "two"), BETTER)
    assert record.candidate is not None
    await watch.refresh()
    model = Model({"one": "Ann", "two": "Ann"})
    beside = AdaptersBeside(model, lambda: watch.in_use, watch.tallies, AdaptersConfig(max_beside=1))
    found = await beside.propose(problem("r1"), Deadline.after(10))
    assert [proposal.value for proposal in found.proposals] == ["Ann"]
    await idle(beside)
    await watch.tallies.flush()
    assert (await store.tally("", record.candidate.adapter.revision)).same == 1
    model.says["two"] = "Bea"
    assert (await beside.propose(problem("r2"), Deadline.after(10))).proposals[0].value == "Ann"
    await idle(beside)
    model.says["two"] = Unavailable("ENGINE_UNAVAILABLE", "gone")
    await beside.propose(problem("r3"), Deadline.after(10))
    await idle(beside)
    await watch.tallies.flush()
    tally = await store.tally("", record.candidate.adapter.revision)
    assert replace(tally, candidate_ms=0, present_ms=0) == Tally(
        compared=2, same=1, candidate_proposals=2, present_proposals=2, equal_proposals=1, candidate_failed=1
    )


async def test_an_answer_does_not_wait_for_the_candidate_and_too_many_comparisons_are_left_out(
    watch: AdapterWatch, operations: Operations, store: AdapterStore, tmp_path: Path
) -> None:
    record = await operations.candidate("acme", folder(tmp_path, "own", "acme"), BETTER)
    assert record.candidate is not None
    await watch.refresh()
    model = Model({"own": "Ann"})
    model.slow = "own"
    model.go_on.clear()
    beside = AdaptersBeside(model, lambda: watch.in_use, watch.tallies, AdaptersConfig(max_beside=1))
    for number in range(3):
        assert await beside.propose(problem(f"r{number}"), Deadline.after(10)) == Findings()
    await beside.propose(problem("other", "globex"), Deadline.after(10))
    model.go_on.set()
    await idle(beside)
    await watch.tallies.flush()
    tally = await store.tally("acme", record.candidate.adapter.revision)
    assert (tally.compared, tally.skipped, tally.candidate_proposals, tally.present_proposals) == (1, 2, 1, 0)
    assert model.asked.count("own") == 1, "the other tenant's request never met it"


async def test_a_canary_answers_its_share_and_what_becomes_of_it_is_counted_apart(
    watch: AdapterWatch, operations: Operations, store: AdapterStore, tmp_path: Path
) -> None:
    await operations.candidate("", folder(tmp_path, "one"), BETTER)
    await operations.promote("", NO_NEEDS, stale=0, force=False)
    await operations.candidate("", folder(tmp_path, "two"), BETTER)
    record = await operations.canary("", 0.5)
    assert record.candidate is not None
    await watch.refresh()
    beside = AdaptersBeside(Model({"one": "Ann", "two": "Bea"}), lambda: watch.in_use, watch.tallies, AdaptersConfig())
    answers = []
    for number in range(40):
        asked = problem(f"r{number}")
        answers.append((await beside.propose(asked, Deadline.after(10))).proposals[0].value)
        beside.told(asked, Repair(text="", verdict=Verdict(valid=answers[-1] == "Ann", value="", issues=())))
        await idle(beside)
    assert 8 < answers.count("Bea") < 32
    settled = replace(problem("r0"), is_open=False)
    await beside.propose(settled, Deadline.after(10))
    beside.told(settled, Repair(text="", verdict=Verdict(valid=True, value="", issues=())))
    assert not beside.num_under_way, "where nothing is left to judge, nothing is compared"
    await watch.tallies.flush()
    tally = await store.tally("", record.candidate.adapter.revision)
    assert (tally.candidate_answered, tally.candidate_valid) == (answers.count("Bea"), 0)
    assert (tally.present_answered, tally.present_valid) == (answers.count("Ann"), answers.count("Ann"))
    assert (tally.compared, tally.same) == (40, 0)


async def test_counts_wait_for_a_ledger_that_is_away(watch: AdapterWatch, valkey_url: str) -> None:
    away = AdapterWatch("redis://127.0.0.1:9/0", AdaptersConfig())
    away.tallies.add("", "rev", compared=2)
    await away.tallies.flush()
    assert away.tallies._counts == {("", "rev"): {"compared": 2}}
    with pytest.raises(Unavailable):
        await away.refresh()
    await away.close()


def test_names_of_adapters_of_long_tenants_are_short_enough_for_engines() -> None:
    name = Record(scope="t" * 63).free_name
    assert len(name) <= 63
    assert name != Record(scope="t" * 62).free_name
    assert Adapter(name=name, generation=1, revision="")


async def idle(beside: AdaptersBeside) -> None:
    """Until nothing is compared any more."""
    while beside.num_under_way:
        await asyncio.sleep(0.001)
