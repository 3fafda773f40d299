from __future__ import annotations

import random
import time

import pytest
from engine_kv_support import VALUE_BYTES, KvCore, leased
from engine_support import FakeRunner, Results, greedy_answer, make_core, run_to_end
from hypothesis import given, settings
from hypothesis import strategies as st

from services.engine.ending import Ending
from services.engine.kv.miss_cause import MissCause
from services.engine.sequence import State
from stagemesh.api.common.v1 import common_pb2

ABORT = Ending(common_pb2.FINISH_REASON_ABORT)
FAILED = Ending(common_pb2.FINISH_REASON_ERROR)
PROMPT = [1 + number % 90 for number in range(70)]
"""Four full pages and a part of one."""


def run(kv: KvCore, *, loads: bool = True, saves: bool = True) -> Results:
    """Steps until nothing is left to do."""
    results = Results()
    for _ in range(500):
        results.take(kv.core.step().updates)
        kv.core.check_integrity()
        moved = (loads and kv.load_next()) or (saves and kv.save_next())
        if not moved and not kv.core.has_work():
            break
    results.take(kv.core.step().updates)
    return results


def stored_by_another(prompt: list[int] = PROMPT, max_tokens: int = 8) -> dict[bytes, bytes]:
    """What the store holds after an engine computed this."""
    kv = KvCore(16)
    kv.core.add(leased("first", prompt, max_tokens=max_tokens))
    run(kv)
    return kv.store.values


def report(results: Results, name: str) -> tuple[int, int, int, int, str]:
    kv = results.finished[name].kv
    assert kv is not None
    return kv.pool_tokens, kv.host_tokens, kv.store_tokens, kv.computed_tokens, kv.miss_cause


def test_the_full_pages_of_a_finished_sequence_are_stored() -> None:
    kv = KvCore(16)
    kv.core.add(leased("a", PROMPT, max_tokens=12))
    results = run(kv)
    assert results.tokens["a"] == greedy_answer(PROMPT, 12)
    assert len(kv.store.values) == 5, "70 + 11 computed tokens have five full pages, some of the answer among them"
    assert kv.core.load().used_pages == 0


def test_a_restored_sequence_answers_as_the_computed_one_and_computes_the_rest_only() -> None:
    kv = KvCore(16, values=stored_by_another())
    kv.core.add(leased("a", PROMPT, stored_tokens=64))
    results = run(kv)
    assert results.tokens["a"] == greedy_answer(PROMPT, 8)
    assert report(results, "a") == (0, 0, 64, 6, "")
    assert results.finished["a"].cached_tokens == 64
    assert kv.runner.num_tokens == 6 + 7


def test_others_go_on_while_a_sequence_waits_for_its_pages() -> None:
    kv = KvCore(32, values=stored_by_another())
    kv.core.add(leased("waits", PROMPT, stored_tokens=64))
    kv.core.add(leased("goes on", [7] * 20))
    results = run(kv, loads=False)
    assert results.tokens["goes on"] == greedy_answer([7] * 20, 8)
    assert [sequence.state for sequence in kv.core.sequences()] == [State.RESTORING]
    assert kv.core.wait_s() != 0.0, "the loop does not spin meanwhile"
    assert run(kv).tokens["waits"] == greedy_answer(PROMPT, 8)


def test_restored_pages_are_found_in_the_pool_by_the_next() -> None:
    kv = KvCore(16, values=stored_by_another())
    for name in ("a", "b"):
        kv.core.add(leased(name, PROMPT, stored_tokens=64, max_tokens=1))
        results = run(kv)
    assert report(results, "b") == (69, 0, 0, 1, ""), "all but the last token, open page included"
    assert kv.store.num_calls == 1


def test_what_one_loads_is_not_loaded_by_another_at_the_same_time() -> None:
    kv = KvCore(32, values=stored_by_another())
    for name in ("a", "b", "c"):
        kv.core.add(leased(name, PROMPT, stored_tokens=64))
    results = run(kv)
    assert kv.store.num_calls == 1
    assert [report(results, name)[:3] for name in ("a", "b", "c")] == [(0, 0, 64), (64, 0, 0), (64, 0, 0)]


def test_host_memory_is_asked_before_the_store() -> None:
    kv = KvCore(6, host_bytes=100_000)
    kv.core.add(leased("a", PROMPT))
    run(kv)
    kv.core.add(leased("others", [9] * 80))
    run(kv)
    kv.core.add(leased("a again", PROMPT, stored_tokens=64))
    results = run(kv)
    assert results.tokens["a again"] == greedy_answer(PROMPT, 8)
    assert report(results, "a again") == (0, 64, 0, 6, "")
    assert kv.store.num_calls == 0


def test_host_memory_is_used_without_a_lease_too() -> None:
    kv = KvCore(6, host_bytes=100_000)
    for prompt in (PROMPT, [9] * 80, PROMPT):
        kv.core.add(leased("a", prompt, ttl_s=0))
        results = run(kv)
    assert report(results, "a") == (0, 64, 0, 6, "")
    assert not kv.store.values, "nothing may be stored without a time to live"


@pytest.mark.parametrize(
    "cause", [MissCause.STORE_UNAVAILABLE, MissCause.STORE_SLOW, MissCause.STORE_REFUSED, MissCause.NO_STORE]
)
def test_a_store_that_fails_is_a_miss_by_cause_and_is_asked_once(cause: MissCause) -> None:
    kv = KvCore(16, values=stored_by_another())
    kv.store.cause = cause
    kv.core.add(leased("a", PROMPT, stored_tokens=64))
    results = run(kv)
    assert results.tokens["a"] == greedy_answer(PROMPT, 8)
    assert report(results, "a") == (0, 0, 0, 70, cause)
    assert (kv.store.num_calls, kv.counters.get("misses", cause)) == (1, 1)


def test_pages_count_up_to_the_first_that_is_missing_and_it_is_stored_again() -> None:
    kv = KvCore(16, values=stored_by_another())
    missing = list(kv.store.values)[2]
    value = kv.store.values.pop(missing)
    kv.core.add(leased("a", PROMPT, stored_tokens=64))
    results = run(kv)
    assert results.tokens["a"] == greedy_answer(PROMPT, 8)
    assert report(results, "a") == (0, 0, 32, 38, "NOT_FOUND")
    assert kv.store.values[missing] == value


def test_a_value_that_is_damaged_is_a_miss_and_is_replaced() -> None:
    kv = KvCore(16, values=stored_by_another())
    damaged = list(kv.store.values)[1]
    value = kv.store.values[damaged]
    kv.store.values[damaged] = value[:-1] + b"?"
    kv.core.add(leased("a", PROMPT, stored_tokens=64))
    results = run(kv)
    assert results.tokens["a"] == greedy_answer(PROMPT, 8)
    assert report(results, "a") == (0, 0, 16, 54, "BAD_CHECKSUM")
    assert kv.store.values[damaged] == value


def test_a_value_that_is_damaged_in_host_memory_is_forgotten_and_looked_for_in_the_store() -> None:
    kv = KvCore(16, host_bytes=100_000, values=stored_by_another())
    kv.store.host.put(b"t", [(digest, b"damaged") for digest in list(kv.store.values)[:3]])
    kv.core.add(leased("a", PROMPT, stored_tokens=64))
    results = run(kv)
    assert results.tokens["a"] == greedy_answer(PROMPT, 8)
    assert report(results, "a") == (0, 0, 64, 6, "")
    assert kv.counters.get("misses", "BAD_CHECKSUM") == 1


def test_a_fault_while_loading_is_a_miss() -> None:
    kv = KvCore(16, values=stored_by_another())
    kv.port.fails = True
    kv.core.add(leased("a", PROMPT, stored_tokens=64))
    results = run(kv)
    assert results.tokens["a"] == greedy_answer(PROMPT, 8)
    assert report(results, "a")[4] == "LOAD_FAILED"


def test_a_lease_that_names_more_than_there_is_costs_nothing_but_the_look() -> None:
    kv = KvCore(16, values=stored_by_another())
    kv.core.add(leased("a", PROMPT, stored_tokens=1_000_000))
    assert report(run(kv), "a") == (0, 0, 64, 6, "")
    kv.core.add(leased("b", PROMPT[:5], stored_tokens=1_000_000))
    assert report(run(kv), "b") == (0, 0, 0, 5, "")


def test_an_expired_lease_loads_and_stores_nothing() -> None:
    kv = KvCore(16, values=stored_by_another())
    before = dict(kv.store.values)
    kv.core.add(leased("a", [*PROMPT[:64], *[3] * 40], stored_tokens=64, expires_unix_us=int((time.time() - 1) * 1e6)))
    assert report(run(kv), "a") == (0, 0, 0, 104, "LEASE_EXPIRED")
    assert kv.store.values == before


def test_pages_are_computed_where_that_is_quicker() -> None:
    kv = KvCore(16, values=stored_by_another(), prefill_token_s=1e-9)
    kv.core.add(leased("a", PROMPT, stored_tokens=64))
    assert report(run(kv), "a") == (0, 0, 0, 70, "LOAD_TOO_DEAR")
    assert kv.store.num_calls == 0


def test_a_sequence_that_ends_while_its_pages_are_loaded_keeps_them_until_the_loader_lets_go() -> None:
    for ending in (ABORT, FAILED):
        kv = KvCore(8, values=stored_by_another())
        kv.core.add(leased("a", PROMPT, stored_tokens=64))
        kv.core.step()
        kv.core.end("a", ending)
        assert kv.core.load().used_pages == 5
        kv.core.check_integrity()
        assert [update.finished.ending for update in kv.core.step().updates if update.finished] == [ending]
        assert kv.load_next()
        assert kv.core.load().used_pages == 0
        kv.core.check_integrity()
        assert kv.store.num_calls == 0, "what is cancelled is not looked for"


def test_a_deadline_ends_a_sequence_that_waits_for_its_pages() -> None:
    kv = KvCore(8, values=stored_by_another())
    sequence = leased("a", PROMPT, stored_tokens=64)
    sequence.deadline_s = time.monotonic() + 0.01
    kv.core.add(sequence)
    kv.core.step()
    while time.monotonic() < sequence.deadline_s:
        time.sleep(kv.core.wait_s() or 0.0)
    (update,) = kv.core.step().updates
    assert update.finished is not None
    assert update.finished.ending.reason == common_pb2.FINISH_REASON_DEADLINE
    assert kv.load_next()
    assert kv.core.load().used_pages == 0


def test_sequences_come_before_pages_that_wait_to_be_stored() -> None:
    kv = KvCore(6)
    kv.core.add(leased("a", PROMPT))
    run(kv, saves=False)
    assert kv.saves.num_pages == 4
    kv.core.add(leased("b", [9] * 80))
    results = run(kv, saves=False)
    assert results.tokens["b"] == greedy_answer([9] * 80, 8)
    assert kv.core.num_preemptions == 0
    assert kv.counters.get("saves_dropped", "POOL_NEEDED") == 4


def test_what_waits_to_be_stored_is_bounded_and_what_is_dropped_counted() -> None:
    kv = KvCore(32, queue_pages=20)
    kv.core.add(leased("a", [1 + number % 90 for number in range(16 * 20)]))
    kv.core.add(leased("b", PROMPT, salt=b"other"))
    run(kv, saves=False)
    assert kv.saves.num_pages == 20
    assert kv.counters.get("saves_dropped", "QUEUE_FULL") == 4


def test_pages_that_are_stored_already_or_on_their_way_are_not_stored_again() -> None:
    kv = KvCore(32, values=stored_by_another())
    kv.core.add(leased("knows", PROMPT, stored_tokens=64))
    run(kv, saves=False)
    assert kv.saves.num_pages == 0
    kv = KvCore(32)
    for name in ("a", "b", "c"):
        kv.core.add(leased(name, PROMPT))
    run(kv, saves=False)
    assert kv.saves.num_pages == 4


def test_pages_are_stored_with_what_they_cost_and_one_slow_minute_changes_that_little() -> None:
    kv = KvCore(16, prefill_token_s=1e-3)
    seconds = []
    for at, token_s in enumerate((1e-3, 1e-3, 4e-3)):
        kv.prefill_token_s = token_s
        kv.core.add(leased(f"{at}", [at + 1] * 40))
        run(kv, saves=False)
        (job,) = kv.saver.take_back(lambda job: True)
        seconds.append(job.page_s)
        kv.core.copied(job)
    assert seconds[:2] == pytest.approx([0.016, 0.016])
    assert 0.016 < seconds[2] < 0.02


def test_what_the_store_did_not_take_is_stored_the_next_time() -> None:
    kv = KvCore(32)
    kv.saver.is_down = True
    for is_down in (True, False):
        kv.saver.is_down = is_down
        kv.core.add(leased("a", PROMPT))
        run(kv)
    assert len(kv.store.values) == 4


def test_where_the_store_is_too_slow_host_memory_still_serves() -> None:
    kv = KvCore(6, host_bytes=100_000)
    for name, prompt in (("a", PROMPT[:40]), ("others", [9] * 80)):
        kv.core.add(leased(name, prompt, max_tokens=1))
        run(kv)
    kv.prefill_token_s = 1e-3
    kv.loader.cost.store.measured(100.0, 1)
    kv.core.add(leased("b", PROMPT, stored_tokens=64))
    assert report(run(kv), "b") == (16, 16, 0, 38, "LOAD_TOO_DEAR")
    assert kv.store.num_calls == 0


def test_without_anything_to_load_with_a_lease_is_a_miss_all_the_same() -> None:
    core = make_core(FakeRunner(16), 16)
    core.add(leased("a", PROMPT, stored_tokens=64))
    assert report(run_to_end(core), "a") == (0, 0, 0, 70, "NO_STORE")


@pytest.mark.parametrize("ending", [ABORT, FAILED])
def test_a_sequence_that_does_not_end_well_is_not_stored(ending: Ending) -> None:
    kv = KvCore(16)
    kv.core.add(leased("a", PROMPT, max_tokens=40))
    for _ in range(5):
        kv.core.step()
    kv.core.end("a", ending)
    run(kv)
    assert not kv.store.values


def test_reused_pages_are_copied_to_host_memory_before_the_pool_takes_them() -> None:
    kv = KvCore(8, host_bytes=100 * VALUE_BYTES)
    for name, prompt in (("a", PROMPT), ("a again", PROMPT), ("b", [9] * 60), ("c", [8] * 60)):
        sequence = leased(name, prompt, max_tokens=20, ttl_s=0)
        kv.core.add(sequence)
        for _ in range(10):
            kv.core.step()
        kv.core.end(name, ABORT)
        kv.save_all()
        kv.core.check_integrity()
    kv.core.add(leased("a", PROMPT))
    results = run(kv)
    assert results.tokens["a"] == greedy_answer(PROMPT, 8)
    assert report(results, "a")[1] > 0


def test_a_page_that_another_tenant_had_holds_nothing_of_it_after_a_failed_load() -> None:
    kv = KvCore(5)
    kv.core.add(leased("a", [5] * 70, tenant="other", ttl_s=0))
    run(kv)
    kv.store.cause = MissCause.STORE_UNAVAILABLE
    kv.core.add(leased("b", PROMPT, stored_tokens=64))
    kv.core.step()
    assert kv.load_next()
    pages = kv.core.sequences()[0].table.pages
    assert all((kv.runner.slots[page * 16 : page * 16 + 16] == -1).all() for page in pages[:4])
    assert run(kv).tokens["b"] == greedy_answer(PROMPT, 8)


requests = st.lists(
    st.tuples(
        st.integers(0, 2),  # prompt family
        st.integers(1, 70),  # prompt length
        st.integers(1, 30),  # max tokens
        st.sampled_from(["t", "u"]),
        st.integers(0, 80),  # stored tokens, as the lease says
        st.integers(0, 12),  # arrives at step
        st.one_of(st.none(), st.none(), st.integers(0, 20)),  # is cancelled at step
    ),
    min_size=1,
    max_size=7,
)


@settings(max_examples=120, deadline=None)
@given(requests, st.integers(0, 2**32), st.sampled_from([0, 8 * VALUE_BYTES, 10**6]))
def test_answers_are_right_and_no_page_is_lost_whatever_is_loaded_stored_cancelled_and_preempted(
    mix: list[tuple[int, int, int, str, int, int, int | None]], seed: int, host_bytes: int
) -> None:
    dice, kv, results = random.Random(seed), KvCore(10, max_running=3, host_bytes=host_bytes, queue_pages=6), Results()
    prompts = [[1 + (family * 7 + at) % 90 for at in range(length)] for family, length, *_ in mix]
    for step in range(2000):
        for number, (_, _, max_tokens, tenant, stored, arrival, cancel) in enumerate(mix):
            if step == arrival:
                sequence = leased(
                    str(number), prompts[number], max_tokens=max_tokens, tenant=tenant, stored_tokens=stored
                )
                kv.core.add(sequence)
            if cancel is not None and step == arrival + cancel:
                kv.core.end(str(number), ABORT)
        results.take(kv.core.step().updates)
        kv.core.check_integrity()
        kv.store.cause = MissCause.STORE_SLOW if dice.random() < 0.1 else None
        if dice.random() < 0.1 and kv.store.values:
            kv.store.values[dice.choice(list(kv.store.values))] = b"damaged"
        if dice.random() < 0.4:
            kv.load_next()
        if dice.random() < 0.3:
            kv.save_next()
        kv.core.check_integrity()
        if step >= 12 and not kv.core.has_work() and not kv.core.has_pages_out():
            break
    for number, (_, _, max_tokens, *_) in enumerate(mix):
        found, wanted = results.tokens[str(number)], greedy_answer(prompts[number], max_tokens)
        assert found == (wanted[: len(found)] if results.ending(str(number)) == ABORT else wanted)
        kv_report = results.finished[str(number)].kv
        assert kv_report is not None
        if results.ending(str(number)) != ABORT:
            parts = (kv_report.pool_tokens, kv_report.host_tokens, kv_report.store_tokens, kv_report.computed_tokens)
            assert sum(parts) == len(prompts[number])
    assert kv.core.load().used_pages == 0
    kv.store.host.check_integrity()


def test_what_runs_while_its_tenant_is_erased_leaves_nothing_behind() -> None:
    kv = KvCore(32, host_bytes=100_000)
    kv.store.values = dict(stored := stored_by_another())
    kv.core.add(leased("runs", [7] * 70, max_tokens=20))
    kv.core.add(leased("loads", PROMPT, stored_tokens=64))
    for _ in range(6):
        kv.core.step()
    kv.core.forget("t")
    results = run(kv)
    assert results.tokens["loads"] == greedy_answer(PROMPT, 8)
    assert results.ending("runs").reason == common_pb2.FINISH_REASON_LENGTH
    assert kv.store.host.stats().num_pages == 0
    assert kv.store.values == stored, "nothing was added to what the cache service erases"
    for prompt in (PROMPT, [7] * 70):
        kv.core.add(leased("again", prompt))
        assert report(run(kv), "again")[0] == 0


def test_what_was_copied_before_an_erasure_does_not_arrive_after_it() -> None:
    kv = KvCore(32, host_bytes=100_000)
    kv.core.add(leased("a", PROMPT, ttl_s=0))
    run(kv, saves=False)
    job = kv.saver._jobs[0]
    values = kv.port.export_pages(job.pages)
    kv.core.forget("t")
    kv.store.keep(job.pages, [value for value in values if value is not None], job.num_erasures)
    assert kv.store.host.stats().num_pages == 0


def test_an_erasure_leaves_alone_what_other_tenants_have_under_way() -> None:
    kv = KvCore(32, host_bytes=100_000)
    kv.core.add(leased("a", PROMPT, tenant="alice"))
    run(kv, saves=False)
    job = kv.saver._jobs[0]
    kv.core.forget("mallory")
    assert kv.saves.num_pages == 4
    kv.save_all()
    assert kv.store.host.stats().num_pages == len(kv.store.values) == 4
    kv.core.add(leased("again", PROMPT, tenant="alice"))
    run(kv, saves=False)
    assert not kv.saves.num_pages, "it is known that they were stored"
    kv.core.forget("alice")
    kv.store.keep(job.pages, [b"late"] * 4, job.num_erasures)
    assert kv.store.host.stats().num_pages == 0


def test_what_waits_to_be_saved_of_an_erased_tenant_is_dropped_and_counted() -> None:
    kv = KvCore(32, host_bytes=100_000)
    kv.core.add(leased("a", PROMPT))
    run(kv, saves=False)
    kv.core.forget("t")
    assert (kv.saves.num_pages, kv.counters.get("saves_dropped", "FORGOTTEN")) == (0, 4)
    kv.core.add(leased("again", PROMPT))
    run(kv)
    assert len(kv.store.values) == 4, "what is computed after it is stored again"


def test_so_many_erasures_that_some_are_no_longer_listed_let_nothing_arrive_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("services.engine.kv.page_source.MAX_ERASED_TENANTS", 2)
    source = KvCore(4).store
    for tenant in ("a", "b", "c"):
        source.forget_tenant(tenant)
    assert [source.was_erased(tenant, 0) for tenant in ("a", "b", "c")] == [True] * 3
    assert [source.was_erased(tenant, 1) for tenant in ("a", "b", "c", "d")] == [False, True, True, False]


def test_a_sequence_that_goes_on_without_an_overdue_load_stays_forgotten() -> None:
    kv = KvCore(16, values=stored_by_another(), max_load_s=-10.0)
    kv.core.add(leased("a", PROMPT, stored_tokens=64))
    kv.core._scheduler.plan(100)
    (sequence,) = kv.core.sequences()
    assert sequence.state is State.RESTORING
    kv.core.forget("t")
    run(kv, loads=False)
    kv.load_next()
    kv.core.add(leased("again", PROMPT))
    assert report(run(kv), "again")[0] == 0


def test_pages_of_an_erased_tenant_are_cleared_a_few_in_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.engine.core.CLEARED_PER_STEP", 2)
    kv = KvCore(16)
    kv.core.add(leased("a", PROMPT, ttl_s=0))
    run(kv)
    kv.core.forget("t")
    calls: list[int] = []
    monkeypatch.setattr(kv.runner, "zero", lambda pages: calls.append(len(pages)))
    while kv.core.wait_s() is not None:
        kv.core.step()
        kv.core.check_integrity()
    assert calls == [2, 2, 1]


def test_a_loader_that_does_not_come_back_holds_up_nobody_for_ever() -> None:
    kv = KvCore(16, values=stored_by_another(), max_load_s=-10.0)
    kv.core.add(leased("a", PROMPT, stored_tokens=64))
    results = run(kv, loads=False)
    assert results.tokens["a"] == greedy_answer(PROMPT, 8)
    assert report(results, "a") == (0, 0, 0, 70, "STORE_SLOW")
    assert kv.core.load().used_pages == 5, "the loader still has its pages"
    kv.core.check_integrity()
    assert kv.load_next()
    assert kv.core.load().used_pages == 0
    kv.core.check_integrity()


def test_a_sequence_that_gives_way_finds_its_pages_in_host_memory_where_that_is_quicker() -> None:
    prompts = {"old": [5] * 60, "young": [6] * 60}
    computed = {}
    for compute_s in (1.0, 1e-12):
        kv = KvCore(10, host_bytes=10**6)
        kv.core.policy.cost.prompt_s = lambda tokens, depth, token_s=compute_s: token_s * tokens  # type: ignore[method-assign,misc]
        for name, prompt in prompts.items():
            kv.core.add(leased(name, prompt, max_tokens=40, ttl_s=0))
        results = Results()
        while kv.core.has_work():
            results.take(kv.core.step().updates)
            while kv.save_next() or kv.load_next():
                pass
            kv.core.check_integrity()
        results.take(kv.core.step().updates)
        for name, prompt in prompts.items():
            assert results.tokens[name] == greedy_answer(prompt, 40)
            assert report(results, name)[0] == 0, "what was computed once is no hit"
        assert kv.core.num_preemptions > 0
        computed[compute_s] = kv.runner.num_tokens
    assert computed[1.0] < computed[1e-12]
