"""The differ over real servers: events in, one row per request out, whatever is away meanwhile."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import pytest
from events_support import (
    Broker,
    connected,
    eventually,
    free_port,
    make_topic,
    producing,
    running_broker,
    running_postgres,
    running_valkey,
    serving,
)

from services.differ.config import DifferConfig, database_url
from services.differ.report import Report, report
from services.differ.service import DifferService
from services.differ.store import PairStore
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from stagemesh.api.events.v1 import events_pb2
from stagemesh.models.store import ModelFiles
from stagemesh.models.tokenizer_file import TokenizerFile, load_tokenizer
from stagemesh.runtime.config import ConfigError
from stagemesh.runtime.envelope import new_envelope
from stagemesh.runtime.interceptors import Context
from stagemesh.runtime.mesh_config import DEFAULT_MODEL, Addresses, MeshConfig
from stagemesh.runtime.outbox import Outbox
from stagemesh.runtime.redis_client import Redis
from stagemesh.runtime.relay import Relay, RelayConfig
from stagemesh.runtime.topics import ANSWERS_STABLE

FAST = RelayConfig(republish_after_s=2.0, poll_interval_s=0.05)
ANSWER = "The capital of France is Paris."


class FakeEngine(engine_pb2_grpc.EngineServiceServicer):
    """Answers every prompt with the same tokens; notes what it was asked."""

    def __init__(self, file: TokenizerFile, answer: str) -> None:
        self.model = common_pb2.ModelIdentity(
            model=DEFAULT_MODEL, revision="r1", tokenizer_hash=file.tokenizer_hash, precision="float32"
        )
        self.token_ids = file.build().encode(answer, add_special_tokens=False).ids
        self.submits: list[engine_pb2.Submit] = []
        self.refuses: grpc.StatusCode | None = None
        self.breaks_off = False

    def register(self, server: grpc.aio.Server) -> None:
        engine_pb2_grpc.add_EngineServiceServicer_to_server(self, server)

    async def Describe(self, _request: engine_pb2.DescribeRequest, _context: Context) -> engine_pb2.DescribeResponse:
        return engine_pb2.DescribeResponse(model=self.model)

    async def Generate(
        self, request: engine_pb2.GenerateRequest, context: Context
    ) -> AsyncIterator[engine_pb2.GenerateResponse]:
        self.submits.append(request.submit)
        if self.refuses is not None:
            await context.abort(self.refuses, "refused by the test")
        for index, token_id in enumerate(self.token_ids):
            delta = engine_pb2.SequenceDelta(first_index=index, token_ids=[token_id])
            yield engine_pb2.GenerateResponse(delta=delta)
            if self.breaks_off:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "broken off by the test")
        finish = engine_pb2.Finish(reason=common_pb2.FINISH_REASON_STOP)
        yield engine_pb2.GenerateResponse(
            delta=engine_pb2.SequenceDelta(first_index=len(self.token_ids), finish=finish)
        )


@pytest.fixture(scope="module")
def tokenizer_file(default_model_files: ModelFiles) -> TokenizerFile:
    return load_tokenizer(default_model_files)


@pytest.fixture(scope="module")
def redis_url() -> Iterator[str]:
    with running_valkey() as url:
        yield url


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker() as started:
        yield started


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Redis]:
    async with connected(redis_url) as client:
        yield client


@pytest.fixture
def mesh(tmp_path: Path, redis_url: str, broker: Broker) -> MeshConfig:
    return MeshConfig(
        state_dir=tmp_path,
        ledger_url=redis_url,
        kafka_bootstrap=broker.bootstrap,
        kafka_settings={"group.protocol": "consumer"},  # members of the classic one wait for 3 s at this broker
        kafka_topic_prefix=f"{uuid.uuid4().hex[:8]}.",
        addresses=Addresses(candidate_engine=(f"127.0.0.1:{free_port()}",)),
    )


@pytest.fixture
async def outbox(mesh: MeshConfig, redis: Redis, broker: Broker) -> AsyncIterator[Outbox]:
    """With a relay that runs, as in the gateway."""
    made = Outbox(redis, ANSWERS_STABLE, ttl_s=600, max_entries=1000, prefix=mesh.kafka_topic_prefix)
    make_topic(broker.bootstrap, made.topic_name)
    async with producing(broker.bootstrap) as producer:
        relay = Relay(made, producer, FAST)
        relay.start()
        yield made
        await relay.stop()


@asynccontextmanager
async def running_differ(mesh: MeshConfig, config: DifferConfig | None = None) -> AsyncIterator[str]:
    """Gives the database's URL."""
    config = config or DifferConfig(max_attempts=2, max_backoff_s=0.2)
    differ = DifferService(mesh, config)
    await differ.start()
    try:
        yield database_url(config, mesh)
    finally:
        await differ.drain(1.0)
        await differ.close()


@asynccontextmanager
async def running_engine(mesh: MeshConfig, engine: FakeEngine) -> AsyncIterator[None]:
    (address,) = mesh.addresses.candidate_engine
    async with serving(engine.register, int(address.rpartition(":")[2])):
        yield


def recorded(
    file: TokenizerFile, text: str = ANSWER, *, request_id: str = "", tokenizer_hash: str = "", session_id: str = ""
) -> events_pb2.Envelope:
    """The event of a request whose caller got `text`."""
    request_id = request_id or str(uuid.uuid4())
    envelope = new_envelope(ANSWERS_STABLE, tenant_id="acme", request_id=request_id)
    answer, tokenizer = envelope.answer, file.build()
    answer.request.request_id = request_id
    answer.request.session_id = session_id
    answer.request.chat.messages.add(role="user", content="What is the capital of France?")
    answer.request.sampling.temperature = 0.7
    answer.request.sampling.max_tokens = 50
    answer.prompt_token_ids.extend([1, 2, 3])
    answer.output_token_ids.extend(tokenizer.encode(text, add_special_tokens=False).ids)
    answer.final.seed = 42
    answer.final.total_us = 250_000
    answer.final.model.model = "stable-model"
    answer.final.model.tokenizer_hash = tokenizer_hash or file.tokenizer_hash
    answer.final.choices.add(text=text, finish_reason=common_pb2.FINISH_REASON_STOP)
    return envelope


async def confirmed(outbox: Outbox) -> None:
    async def is_empty() -> bool:
        return await outbox.count() == 0

    await eventually(is_empty, "all events are confirmed", within_s=60)


async def summary(url: str) -> Report:
    return await asyncio.to_thread(report, url)


async def test_50_answers_give_50_rows_though_events_repeat_and_the_differ_restarts(
    mesh: MeshConfig, outbox: Outbox, tokenizer_file: TokenizerFile
) -> None:
    engine = FakeEngine(tokenizer_file, ANSWER)
    envelopes = [recorded(tokenizer_file, ANSWER if i % 2 else "The capital of France is Lyon.") for i in range(50)]
    async with running_engine(mesh, engine):
        async with running_differ(mesh):
            for envelope in envelopes[:25]:
                assert await outbox.put(envelope)

            async def some() -> bool:
                return await outbox.count() < 20

            await eventually(some, "a few are compared")
        for envelope in [*envelopes[25:], *envelopes[:5]]:  # five come again though they have rows already
            assert await outbox.put(envelope)
        async with running_differ(mesh) as url:
            await confirmed(outbox)
            found = await summary(url)
    assert (found.rows, found.compared, found.errors) == (50, 50, {})
    assert (found.identical_share, found.drift_share) == (0.5, 0.5)
    assert found.divergence_histogram == {"none": 25, "0": 0, "1-3": 0, "4-15": 25, "16-63": 0, "64+": 0}
    assert found.worst[0].stable_text == "The capital of France is Lyon."
    assert found.worst[0].candidate_text == ANSWER


async def test_the_candidate_gets_the_recorded_tokens_the_seed_and_the_limits(
    mesh: MeshConfig, outbox: Outbox, tokenizer_file: TokenizerFile
) -> None:
    engine, envelope = FakeEngine(tokenizer_file, ANSWER), recorded(tokenizer_file)
    async with running_engine(mesh, engine), running_differ(mesh):
        await outbox.put(envelope)
        await confirmed(outbox)
    (submit,) = engine.submits
    assert (submit.sequence_id, submit.tenant_id) == (envelope.request_id, "acme")
    assert (list(submit.token_ids), submit.sampling.seed, submit.sampling.max_tokens) == ([1, 2, 3], 42, 50)
    assert submit.sampling.temperature == pytest.approx(0.7)


async def test_with_another_tokenizer_the_prompt_is_rendered_again_and_a_session_is_said_to_be_impossible(
    mesh: MeshConfig, outbox: Outbox, tokenizer_file: TokenizerFile
) -> None:
    engine = FakeEngine(tokenizer_file, ANSWER)
    async with running_engine(mesh, engine), running_differ(mesh) as url:
        await outbox.put(recorded(tokenizer_file, tokenizer_hash="other"))
        await outbox.put(recorded(tokenizer_file, tokenizer_hash="other", session_id="s"))
        await confirmed(outbox)
        found = await summary(url)
    (submit,) = engine.submits
    prompt = tokenizer_file.build().decode(submit.token_ids, skip_special_tokens=False)
    assert "<|im_start|>user\nWhat is the capital of France?<|im_end|>" in prompt
    assert (found.compared, found.identical_share) == (1, 1.0)
    assert found.errors == {"SESSION_NEEDS_SAME_TOKENIZER": 1}


async def test_while_the_candidate_is_away_events_wait_and_nothing_is_given_up(
    mesh: MeshConfig, outbox: Outbox, tokenizer_file: TokenizerFile
) -> None:
    engine = FakeEngine(tokenizer_file, ANSWER)
    engine.refuses = grpc.StatusCode.RESOURCE_EXHAUSTED
    async with running_differ(mesh) as url:
        for _ in range(5):
            await outbox.put(recorded(tokenizer_file))
        async with running_engine(mesh, engine):

            async def refused() -> bool:
                return len(engine.submits) >= 6

            await eventually(refused, "the engine has refused more often than there are attempts")
        assert (await summary(url)).rows == 0
        engine.refuses = None
        async with running_engine(mesh, engine):
            await confirmed(outbox)
            found = await summary(url)
    assert (found.rows, found.compared) == (5, 5)


async def test_an_answer_that_breaks_the_candidate_gets_a_row_with_the_error_after_its_attempts(
    mesh: MeshConfig, outbox: Outbox, tokenizer_file: TokenizerFile
) -> None:
    engine = FakeEngine(tokenizer_file, ANSWER)
    engine.breaks_off = True
    async with running_engine(mesh, engine), running_differ(mesh) as url:
        await outbox.put(recorded(tokenizer_file))
        await confirmed(outbox)
        found = await summary(url)
    assert (found.rows, found.compared, found.errors) == (1, 0, {"CANDIDATE_BROKE_OFF": 1})
    assert len(engine.submits) == 2


async def test_a_refusal_that_cannot_change_gets_its_row_at_once(
    mesh: MeshConfig, outbox: Outbox, tokenizer_file: TokenizerFile
) -> None:
    engine = FakeEngine(tokenizer_file, ANSWER)
    engine.refuses = grpc.StatusCode.INVALID_ARGUMENT
    async with running_engine(mesh, engine), running_differ(mesh) as url:
        await outbox.put(recorded(tokenizer_file))
        await confirmed(outbox)
        assert (await summary(url)).errors == {"INVALID_ARGUMENT": 1}
    assert len(engine.submits) == 1


async def test_rows_go_to_postgresql_by_url(mesh: MeshConfig, outbox: Outbox, tokenizer_file: TokenizerFile) -> None:
    engine = FakeEngine(tokenizer_file, ANSWER)
    with running_postgres() as postgres_url:
        config = DifferConfig(database_url=postgres_url)
        assert (await summary(database_url(config, mesh))).rows == 0
        async with running_engine(mesh, engine), running_differ(mesh, config) as url:
            await outbox.put(recorded(tokenizer_file, "Paris\x00!"))
            await outbox.put(recorded(tokenizer_file))
            await confirmed(outbox)
            found = await summary(url)
        assert (found.rows, found.identical_share) == (2, 0.5)
        assert found.latency_ratio is not None
        await check_pruning(url)


async def test_rows_are_bounded_in_number_and_age(mesh: MeshConfig) -> None:
    await check_pruning(database_url(DifferConfig(), mesh))


async def check_pruning(url: str) -> None:
    from services.differ.pair import Pair, Side

    store = PairStore(url)
    await store.open()
    await store.prune(max_rows=1, retention=timedelta(0))
    assert await store.count() == 0
    for i in range(5):
        pair = Pair(tenant_id="t", request_id=str(i), answered_at=datetime.now(UTC), stable=Side(), similarity=1.0)
        assert await store.add(pair)
        assert not await store.add(pair)
    assert await store.prune(max_rows=3, retention=timedelta(days=1)) == 2
    assert await store.has("t", "4")
    assert not await store.has("t", "0")
    await store.close()


async def test_an_unreachable_database_holds_back_readiness_and_loses_nothing(
    mesh: MeshConfig, outbox: Outbox, tokenizer_file: TokenizerFile
) -> None:
    engine, port = FakeEngine(tokenizer_file, ANSWER), free_port()
    differ = DifferService(mesh, DifferConfig(database_url=f"postgresql://nobody@127.0.0.1:{port}/none"))
    await outbox.put(recorded(tokenizer_file))
    starting = asyncio.create_task(differ.start())
    done, _ = await asyncio.wait({starting}, timeout=1.0)
    assert not done
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    await differ.close()
    async with running_engine(mesh, engine), running_differ(mesh) as url:
        await confirmed(outbox)
        assert (await summary(url)).rows == 1


async def test_a_differ_without_a_candidate_or_a_database_says_so(mesh: MeshConfig) -> None:
    with pytest.raises(ConfigError, match="candidate_engine"):
        DifferService(mesh.model_copy(update={"addresses": Addresses()}), DifferConfig())
    with pytest.raises(ConfigError, match="database_url"):
        database_url(DifferConfig(), mesh.model_copy(update={"state_dir": None}))
    with pytest.raises(ConfigError, match="sqlite"):
        database_url(DifferConfig(database_url="mysql://x"), mesh)
