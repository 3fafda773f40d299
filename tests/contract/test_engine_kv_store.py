"""KV pages that outlive the engine: the default model over a real KV Redis, in good times and bad."""

from __future__ import annotations

import asyncio
import math
import os
import random
import signal
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest
from engine_server_support import Answer, RunCall, Server, engine_server, eventually, generate, load, submit
from kv_directory_support import records
from kv_store_support import EPOCH, TAU_S, TTL_S, Store, salt_of, wire_to
from quality_support import Valkey, running_valkey

from services.engine.engine import LoadedModel
from services.engine.kernels.native.build import supported_levels
from services.engine.kv import page_port
from stagemesh.api.common.v1.common_pb2 import KvLease
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.models.store import ModelFiles
from stagemesh.runtime.kv_keys import namespace
from stagemesh.runtime.kv_value.worth import MAX_COST_RATIO

KV = {"always_load": True, "max_load_ms": 60_000.0}
"""Whether loading pays is a matter of time, which these tests leave out."""
NUM_TOKENS = 12
PAGE = 16


@pytest.fixture(scope="module")
def model(default_model_files: ModelFiles) -> LoadedModel:
    if not supported_levels():
        pytest.skip("the native kernels need AVX2")
    return load(default_model_files, kv_pool_tokens=4096)


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    with running_valkey(tmp_path_factory.mktemp("kv")) as server:
        yield server


@pytest.fixture
async def store(valkey: Valkey, model: LoadedModel) -> Store:
    store = Store(valkey, model.identity.precision)
    await store.empty()
    return store


def prompt_of(seed: int, num_tokens: int = 15 * PAGE + 5) -> list[int]:
    dice = random.Random(seed)
    return [dice.randrange(100, 40_000) for _ in range(num_tokens)]


def restarted(model: LoadedModel) -> LoadedModel:
    """As after a restart: nothing of what was computed is left."""
    model.runner.zero(range(1, model.num_pages + 1))
    return model


def counted(server: Server, name: str, label: str = "") -> float:
    assert server.engine.core.stored is not None
    return server.engine.core.stored.counters.get(name, label)


async def ask(server: Server, store: Store, name: str, prompt: list[int], tenant_id: str = "tenant") -> Answer:
    lease = await store.lease(prompt, tenant_id)
    return await generate(server, message(name, prompt, lease, tenant_id), timeout_s=120)


def message(name: str, prompt: list[int], lease: KvLease | None, tenant_id: str = "tenant") -> engine_pb2.Submit:
    salt = salt_of(tenant_id)
    return submit(name, prompt, salt=salt, kv=lease, tenant_id=tenant_id, max_tokens=NUM_TOKENS, logprobs=1)


async def fill(model: LoadedModel, store: Store, *prompts: list[int]) -> list[Answer]:
    """Answers of an engine that ends afterwards; what it stores is there then."""
    async with engine_server(restarted(model), store.server.url, kv_store=KV) as server:
        answers = [await ask(server, store, f"fill-{at}", prompt) for at, prompt in enumerate(prompts)]
    restarted(model)
    return answers


def page_of(model: LoadedModel, page: int) -> npt.NDArray[np.uint16]:
    """[layers, KV heads, keys and values, tokens of the page, head size], as bits"""
    assert model.page_io is not None
    shape, out = model.page_io.shape, np.empty((1, model.page_io.page_bytes("bfloat16")), np.uint8)
    model.page_io.export_pages([page], "bfloat16", out)
    return out.view(np.uint16).reshape(shape.num_layers, shape.num_kv_heads, 2, PAGE, shape.head_dim)


def same(answer: Answer, other: Answer) -> bool:
    return answer.tokens == other.tokens and answer.logprobs == other.logprobs


def sources(answer: Answer) -> tuple[int, int, int, int, str]:
    assert answer.finish is not None
    kv = answer.finish.kv
    assert answer.finish.usage.cached_tokens == kv.pool_tokens + kv.host_tokens + kv.store_tokens
    return kv.pool_tokens, kv.host_tokens, kv.store_tokens, kv.computed_tokens, kv.miss_cause


async def test_after_a_restart_the_answer_from_stored_pages_is_the_computed_one(
    model: LoadedModel, store: Store
) -> None:
    prompt = prompt_of(1)
    (computed,) = await fill(model, store, prompt)
    assert sources(computed) == (0, 0, 0, len(prompt), "")
    async with engine_server(model, store.server.url, kv_store=KV) as server:
        restored = await ask(server, store, "a", prompt)
        again = await ask(server, store, "b", prompt)
        load = await server.stub.WatchLoad(engine_pb2.WatchLoadRequest(), timeout=30).read()
        assert load.kv.sums["hit_pages/store"] == 15
        assert load.kv.host_bytes > 0
    assert sources(restored) == (0, 0, 15 * PAGE, 5, "")
    assert sources(again) == (15 * PAGE, 0, 0, 5, "")
    assert same(restored, computed)
    assert same(again, computed)


async def test_a_chain_is_stored_with_what_its_pages_cost_and_none_is_dearer_than_the_one_before(
    model: LoadedModel, store: Store
) -> None:
    prompt = prompt_of(4, 40 * PAGE)
    await fill(model, store, prompt)
    with store.client() as client:
        noted = records(client, namespace("tenant", EPOCH))
    costs = [noted[digest].cost_s for digest in store.digests(prompt)]
    assert costs[0] != 0.0
    assert abs(costs[0]) < TAU_S * math.log(MAX_COST_RATIO), "a page of this model is within the bounds"
    assert costs == sorted(costs, reverse=True)


async def test_the_next_turn_begins_where_the_last_answer_ended(model: LoadedModel, store: Store) -> None:
    prompt = prompt_of(2)
    (first,) = await fill(model, store, prompt)
    turn = [*prompt, *first.tokens, *prompt_of(3, 20)]
    async with engine_server(restarted(model), kv_store={"enabled": False}) as server:
        computed = await generate(server, message("plain", turn, None), timeout_s=120)
    async with engine_server(restarted(model), store.server.url, kv_store=KV) as server:
        restored = await ask(server, store, "turn", turn)
    assert sources(restored)[2] == 16 * PAGE, "with a page of the answer"
    assert same(restored, computed)


async def test_pages_in_eight_bits_are_restored_too(model: LoadedModel, store: Store) -> None:
    kv, prompt = {**KV, "format": "int8"}, prompt_of(4)
    for name in ("fills", "restores"):
        async with engine_server(restarted(model), store.server.url, kv_store=kv) as server:
            answer = await ask(server, store, name, prompt)
    assert sources(answer) == (0, 0, 15 * PAGE, 5, "")
    assert len(answer.tokens) == NUM_TOKENS
    async with engine_server(restarted(model), store.server.url, kv_store=KV) as server:
        exact = await ask(server, store, "exact", prompt)
    assert sources(exact) == (0, 0, 0, len(prompt), "OTHER_DTYPE")


async def test_what_one_engine_stores_another_restores(
    model: LoadedModel, store: Store, default_model_files: ModelFiles
) -> None:
    other, prompt = load(default_model_files, kv_pool_tokens=1024), prompt_of(5)
    async with (
        engine_server(restarted(model), store.server.url, kv_store=KV) as one,
        engine_server(other, store.server.url, kv_store=KV) as two,
    ):
        computed = await ask(one, store, "a", prompt)
        await eventually(lambda: counted(one, "saved_pages") >= 15)
        restored = await ask(two, store, "b", prompt)
    assert sources(restored) == (0, 0, 15 * PAGE, 5, "")
    assert same(restored, computed)


async def test_prefetched_pages_lie_in_host_memory_when_the_sequence_comes(model: LoadedModel, store: Store) -> None:
    prompt = prompt_of(6)
    (computed,) = await fill(model, store, prompt)
    async with engine_server(model, store.server.url, kv_store=KV) as server:
        call, lease = RunCall(server), await store.lease(prompt)
        prefetch = engine_pb2.Prefetch(
            tenant_id="tenant",
            token_ids=prompt[: lease.stored_tokens],
            model=model.identity,
            cache_salt=salt_of("tenant"),
            kv=lease,
        )
        await call.call.write(engine_pb2.RunRequest(prefetch=prefetch))
        await eventually(lambda: counted(server, "prefetched_pages") == 15)
        await call.submit(message("a", prompt, lease))
        await call.read_until_finished()
        await call.call.done_writing()
    assert sources(call.answers["a"]) == (0, 15 * PAGE, 0, 5, "")
    assert same(call.answers["a"], computed)


async def test_a_prefetch_for_which_nothing_can_be_done_is_no_error(model: LoadedModel, store: Store) -> None:
    async with engine_server(restarted(model), "redis://127.0.0.1:1/0", kv_store=KV) as server:
        call, lease = RunCall(server), await store.lease(prompt_of(7))
        lease.stored_tokens = 2**31
        for tokens in ([], [2**32 - 1] * 64, prompt_of(7)):
            prefetch = engine_pb2.Prefetch(tenant_id="tenant", token_ids=tokens, cache_salt=b"x", kv=lease)
            await call.call.write(engine_pb2.RunRequest(prefetch=prefetch))
        await call.submit(submit("a", max_tokens=2))
        await call.read_until_finished()
        await call.call.done_writing()
    assert call.answers["a"].reason == "LENGTH"


async def test_a_store_that_was_killed_is_a_miss_by_cause_and_is_used_again_when_it_is_back(
    model: LoadedModel, store: Store
) -> None:
    prompt = prompt_of(8)
    (computed,) = await fill(model, store, prompt)
    lease = await store.lease(prompt)
    store.server.kill()
    kv = {**KV, "breaker_open_ms": 1.0}
    async with engine_server(model, store.server.url, kv_store=kv) as server:
        answer = await generate(server, message("a", prompt, lease), timeout_s=120)
        assert sources(answer) == (0, 0, 0, len(prompt), "STORE_UNAVAILABLE")
        assert counted(server, "misses", "STORE_UNAVAILABLE") == 1
        assert same(answer, computed)
        await eventually(lambda: counted(server, "saves_dropped", "STORE_UNAVAILABLE") > 0)
        store.server.start()
        await store.empty()
        again = await ask(server, store, "b", [*prompt_of(9)])
        await eventually(lambda: counted(server, "saved_pages") >= 15)
    assert again.reason == "LENGTH"


async def test_a_store_that_hangs_or_is_slow_costs_time_and_nothing_else(model: LoadedModel, store: Store) -> None:
    prompts = [prompt_of(10), prompt_of(11)]
    computed = await fill(model, store, *prompts)
    kv = {"always_load": True, "max_load_ms": 300.0, "store_timeout_ms": 300.0, "host_bytes": 0}
    leases = [await store.lease(prompt) for prompt in prompts]
    with wire_to(store.server) as (wire, url):
        async with engine_server(model, url, kv_store=kv) as server:
            wire.delay_s = 0.2
            slow = await generate(server, message("slow", prompts[0], leases[0]), timeout_s=120)
            os.kill(store.server.pid, signal.SIGSTOP)
            try:
                hung = await generate(server, message("hung", prompts[1], leases[1]), timeout_s=120)
            finally:
                os.kill(store.server.pid, signal.SIGCONT)
    for answer, wanted in zip((slow, hung), computed, strict=True):
        assert same(answer, wanted)
        assert sources(answer)[4] in {"STORE_SLOW", "STORE_UNAVAILABLE"}


async def test_a_full_store_takes_nothing_and_answers_go_on(model: LoadedModel, store: Store) -> None:
    with store.client() as client:
        client.config_set("maxmemory", 1)
    async with engine_server(restarted(model), store.server.url, kv_store=KV) as server:
        lease = KvLease(lease_id="none", namespace=namespace("tenant", EPOCH), epoch=EPOCH, ttl_s=TTL_S)
        answer = await generate(server, message("a", prompt_of(12), lease), timeout_s=120)
        await eventually(lambda: counted(server, "saves_dropped", "STORE_FULL") > 0)
    assert answer.reason == "LENGTH"
    with store.client() as client:
        client.config_set("maxmemory", 0)


async def test_damaged_values_of_every_kind_are_misses_and_are_replaced(model: LoadedModel, store: Store) -> None:
    prompt, dice = prompt_of(13), random.Random(5)
    (computed,) = await fill(model, store, prompt)
    names = store.value_names(prompt)
    damages = (
        lambda value: b"",
        lambda value: value[:-1],
        lambda value: value + b"x",
        lambda value: flipped(value, dice.randrange(len(value))),
        lambda value: flipped(value, dice.randrange(400)),
    )
    with store.client() as client:
        values = [bytes(client.get(name)) for name in names]  # type: ignore[arg-type]
        for at, damage in enumerate(damages):
            client.set(names[at], damage(values[at]), ex=60)
            async with engine_server(restarted(model), store.server.url, kv_store=KV) as server:
                lease = await store.lease(prompt)
                answer = await generate(server, message(f"a{at}", prompt, lease), timeout_s=120)
            assert same(answer, computed)
            assert sources(answer)[2:4] == (at * PAGE, len(prompt) - at * PAGE)
            assert sources(answer)[4] not in {"", "NOT_FOUND"}
            assert client.get(names[at]) == values[at], "replaced"
        client.set(names[0], values[1], ex=60)
        async with engine_server(restarted(model), store.server.url, kv_store=KV) as server:
            swapped = await ask(server, store, "swapped", prompt)
    assert sources(swapped)[4].startswith("OTHER_")
    assert same(swapped, computed)


def flipped(value: bytes, at: int) -> bytes:
    return value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :]


async def test_pages_of_another_version_of_the_engine_are_not_taken(
    model: LoadedModel, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompt = prompt_of(14)
    (computed,) = await fill(model, store, prompt)
    monkeypatch.setattr(page_port, "NUMERICS", "next")
    async with engine_server(model, store.server.url, kv_store=KV) as server:
        answer = await ask(server, store, "a", prompt)
    assert sources(answer) == (0, 0, 0, len(prompt), "OTHER_ENGINE")
    assert same(answer, computed)


async def test_a_restore_that_is_cut_off_counts_up_to_where_it_came(model: LoadedModel, store: Store) -> None:
    prompt = prompt_of(15, 40 * PAGE)
    (computed,) = await fill(model, store, prompt)
    lease = await store.lease(prompt)
    with wire_to(store.server) as (wire, url):
        wire.cut_after = 6_000_000
        async with engine_server(model, url, kv_store=KV) as server:
            answer = await generate(server, message("a", prompt, lease), timeout_s=120)
    stored = sources(answer)[2]
    assert 0 < stored < 39 * PAGE
    assert sources(answer) == (0, 0, stored, len(prompt) - stored, "STORE_UNAVAILABLE")
    assert same(answer, computed)


async def test_another_tenant_finds_nothing_of_the_same_prompt(model: LoadedModel, store: Store) -> None:
    prompt = prompt_of(16)
    async with engine_server(restarted(model), store.server.url, kv_store=KV) as server:
        first = await ask(server, store, "a", prompt)
        await eventually(lambda: counted(server, "saved_pages") >= 15)
        lease = await store.lease(prompt, "other")
        assert lease.stored_tokens == 0
        lease.stored_tokens = 15 * PAGE
        forged = await generate(server, message("b", prompt, lease, "other"), timeout_s=120)
    assert sources(forged) == (0, 0, 0, len(prompt), "NOT_FOUND")
    assert same(first, forged)


async def test_a_page_that_another_tenant_had_is_zeroed_before_it_is_used(
    store: Store, default_model_files: ModelFiles
) -> None:
    model = load(default_model_files, kv_pool_tokens=8 * PAGE)
    assert model.page_io is not None
    async with engine_server(model, store.server.url, kv_store=KV) as server:
        await generate(server, submit("a", prompt_of(17, 100), tenant_id="other", max_tokens=2), timeout_s=120)
        page = next(iter(server.engine.core._blocks._free))  # the next that is taken
        before = page_of(model, page)
        await generate(server, submit("b", prompt_of(18, 5), max_tokens=2), timeout_s=120)
    after = page_of(model, page)
    assert before[:, :, :, 6:].any(), "it was full"
    assert after[:, :, :, :6].any(), "it was used"
    assert not after[:, :, :, 6:].any()


async def test_sixty_four_sequences_store_and_restore_at_once(model: LoadedModel, store: Store) -> None:
    prompts = [prompt_of(100 + number, 3 * PAGE + 2) for number in range(16)]
    computed = await fill(model, store, *prompts)
    with store.client() as client:
        for prompt in prompts[::3]:
            client.delete(*store.value_names(prompt)[1:2])
    async with engine_server(model, store.server.url, kv_store=KV, max_running=16) as server:
        call = RunCall(server, timeout_s=240)
        leases = await asyncio.gather(*(store.lease(prompt) for prompt in prompts))
        for number in range(64):
            await call.submit(message(f"s{number}", prompts[number % 16], leases[number % 16]))
        for number in range(0, 64, 7):
            await call.cancel(f"s{number}")
        await call.read_until_finished()
        await call.call.done_writing()
        assert counted(server, "hit_pages", "store") > 0
    for number in range(64):
        answer = call.answers[f"s{number}"]
        if answer.reason == "ABORT":
            assert number % 7 == 0
        else:
            assert same(answer, computed[number % 16])
