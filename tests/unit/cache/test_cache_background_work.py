"""What the cache service does beside the calls: it goes on whatever happens, and writes nothing that was forgotten."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest
from redis.exceptions import ConnectionError as Away

from services.cache.knowledge.analysis import ANALYZER
from services.cache.knowledge.copies import Copies, Damaged
from services.cache.knowledge.keys import BaseKeys
from services.cache.knowledge.manifest import IndexFile
from services.cache.learning import background, prefill, trainer
from services.cache.learning.config import LearningConfig
from services.cache.learning.observer import Observer
from services.cache.learning.prefill import Prefiller, Served, State
from services.cache.learning.question import Asker, Question, Remembered
from services.cache.learning.trainer import Trainer
from services.cache.learning.warmer import Outcome
from services.cache.public_prefixes import PublicPrefixes
from services.cache.usage_log import UsageLog
from stagemesh.api.cache.v1.cache_pb2 import CacheUse, CommitRequest
from stagemesh.api.common.v1.common_pb2 import ChatMessage, KvLease, ModelIdentity
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.api.tokenizer.v1.tokenizer_pb2 import PrepareResponse

T = TypeVar("T")
BOTH = Asker("s", "ann").tags + Asker("s2", "bob").tags
SHARED = Remembered(Question("How do I get an invoice?", begins=True), 2.0, BOTH)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background.again_and_again, "__kwdefaults__", {"pause_s": 0.0})
    monkeypatch.setattr(trainer, "FIRST_RETRY_S", 0.0)
    monkeypatch.setattr(prefill, "FIRST_POLL_S", 0.001)


class Guard:
    async def call(self, operation: Coroutine[Any, Any, T], budget_s: float) -> T:
        return await operation


class Questions:
    """`on_add` is awaited before anything is written."""

    def __init__(self) -> None:
        self.written: list[tuple[str, str]] = []
        self.on_add: Callable[[str], Awaitable[None]] | None = None

    async def add(self, tenant_id: str, asked: Sequence[tuple[Question, Asker]]) -> None:
        if self.on_add is not None:
            await self.on_add(tenant_id)
        self.written += [(tenant_id, asker.user_id) for _, asker in asked]


def committed(tenant: str, user: str) -> CommitRequest:
    said = [ChatMessage(role="user", content="What is the notice period?")]
    return CommitRequest(tenant_id=tenant, session_id=f"of {user}", user_id=user, messages=said, token_ids=range(64))


def observer(questions: Questions) -> Observer:
    found: Any = SimpleNamespace(known=lambda tenant: Trainer.known(made_trainer(Sets()), tenant))
    fakes: list[Any] = [questions, Guard(), found, None, None]
    return Observer(*fakes, LearningConfig(), 1.0)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not is_so():
            await asyncio.sleep(0.001)


async def test_turns_are_learned_from_after_an_error_that_nobody_expected() -> None:
    questions = Questions()
    failures = iter([Away("the ledger was restarted"), ValueError("a fault of ours")])

    async def fail_twice(tenant: str) -> None:
        for error in failures:
            raise error

    questions.on_add = fail_twice
    watching = observer(questions)
    running = asyncio.create_task(watching.run())
    for user in ("ann", "bob", "cem"):
        watching.committed(committed(user, user))
    await until(lambda: questions.written == [("cem", "cem")])
    running.cancel()


async def test_a_turn_that_waits_behind_another_tenant_is_not_written_once_it_is_forgotten() -> None:
    questions, gate = Questions(), asyncio.Event()

    async def wait(tenant: str) -> None:
        await gate.wait()

    questions.on_add = wait
    watching = observer(questions)
    for tenant, user in (("a", "ann"), ("b", "bob"), ("b", "cem")):
        watching.committed(committed(tenant, user))
    running = asyncio.create_task(watching.run())
    await asyncio.sleep(0)
    await watching.forget("b", user_id="bob")
    gate.set()
    await until(lambda: len(questions.written) == 2)
    assert questions.written == [("a", "ann"), ("b", "cem")]
    assert ("b", "of bob") not in watching._streaks._streaks
    running.cancel()


async def test_forgetting_waits_for_the_tenants_questions_that_are_on_their_way() -> None:
    questions, gate, began = Questions(), asyncio.Event(), asyncio.Event()

    async def wait(tenant: str) -> None:
        began.set()
        await gate.wait()

    questions.on_add = wait
    watching = observer(questions)
    watching.committed(committed("a", "ann"))
    running = asyncio.create_task(watching.run())
    await began.wait()
    forgetting = asyncio.create_task(watching.forget("a", user_id="ann"))
    await asyncio.sleep(0)
    assert not forgetting.done()
    gate.set()
    await forgetting
    assert questions.written == [("a", "ann")]  # so the store, which is asked next, can forget it
    running.cancel()


class Sets:
    """A question store whose answers can fail and be waited for."""

    def __init__(self, *errors: Exception) -> None:
        self.errors: Iterator[Exception] = iter(errors)
        self.on_all: Callable[[], None] = lambda: None

    async def tenants(self) -> list[tuple[str, float]]:
        for error in self.errors:
            raise error
        return [("t", 1.0)]

    async def all(self, tenant_id: str) -> list[Remembered]:
        self.on_all()
        return [SHARED]


class Warmed:
    def __init__(self) -> None:
        self.rounds = 0

    async def warm_all(self, tenant_id: str, questions: Sequence[Question], max_prefills: int | None) -> Outcome:
        self.rounds += 1
        return Outcome(already=len(questions))


def made_trainer(sets: Sets, warmed: Warmed | None = None) -> Trainer:
    fakes: list[Any] = [sets, Guard(), warmed or Warmed()]
    return Trainer(*fakes, LearningConfig(retrain_interval_s=0.001), 1.0)


async def test_retraining_goes_on_after_an_error_that_nobody_expected() -> None:
    warmed = Warmed()
    running = asyncio.create_task(made_trainer(Sets(Away("restarted"), ValueError("a fault")), warmed).run())
    await until(lambda: warmed.rounds > 1)
    running.cancel()


async def test_the_warm_set_is_restored_after_an_error_that_nobody_expected() -> None:
    warmed = Warmed()
    await made_trainer(Sets(Away("restarted")), warmed).restore()
    assert warmed.rounds == 1


async def test_a_forgotten_question_leaves_the_warm_set_also_if_it_is_being_made() -> None:
    sets = Sets()
    training = made_trainer(sets)
    assert [entry.question for entry in (await training.train("t")).questions] == [SHARED.question]
    training.forget("other", [SHARED.question.key])
    assert training.known("t").questions
    training.forget("t", [SHARED.question.key])
    assert not training.known("t").questions
    sets.on_all = lambda: training.forget("t", [SHARED.question.key])
    assert not (await training.train("t")).questions


class Engine:
    def __init__(self, name: str) -> None:
        self.identity = ModelIdentity(model=name, tokenizer_hash="v")
        self.computed: list[str] = []

    async def Describe(self, request: Any, **options: Any) -> engine_pb2.DescribeResponse:
        return engine_pb2.DescribeResponse(model=self.identity)

    async def Generate(self, request: Any, **options: Any) -> Any:
        self.computed.append(request.submit.model.model)
        yield engine_pb2.GenerateResponse(delta=engine_pb2.SequenceDelta(finish=engine_pb2.Finish()))


class Lookup:
    def __init__(self) -> None:
        self.looks = 0

    async def lease(self, *args: Any) -> Any:
        self.looks += 1
        return SimpleNamespace(lease=KvLease(stored_tokens=0 if self.looks % 2 else 32), miss="")


def prefiller(*engines: Engine) -> Prefiller:
    async def resolve(tenant_id: str, model: ModelIdentity) -> Any:
        return SimpleNamespace(salt=b"s" * 32)

    fakes: list[Any] = [None, engines, Lookup(), resolve]
    return Prefiller(*fakes, 20.0, 1.0)


async def yes() -> bool:
    return True


async def no() -> bool:
    return False


async def test_each_prefill_goes_to_the_engine_whose_model_it_is_for() -> None:
    first, second = Engine("one"), Engine("two")
    making = prefiller(first, second)
    served = await making.served()
    other: Any = second
    for one in (served, Served(second.identity, other), served):
        done = await making.prefill("t", one, range(32), SHARED.question.holder, yes)
        assert done.state is State.COMPUTED
    assert (first.computed, second.computed) == (["one", "one"], ["two"])


async def test_a_question_that_was_forgotten_meanwhile_is_not_computed() -> None:
    engine = Engine("one")
    making = prefiller(engine)
    done = await making.prefill("t", await making.served(), range(32), SHARED.question.holder, no)
    assert (done.state, engine.computed) == (State.UNWANTED, [])
    outcome = Outcome()
    outcome.add(done)
    assert outcome == Outcome()


async def test_whoever_flushes_the_usage_log_waits_for_what_is_on_its_way() -> None:
    gate, began = asyncio.Event(), asyncio.Event()

    async def add(batch: Any) -> None:
        began.set()
        await gate.wait()

    fakes: list[Any] = [SimpleNamespace(add=add), Guard()]
    log = UsageLog(*fakes, flush_s=1.0, budget_s=1.0)
    log.add("t", CacheUse())
    first = asyncio.create_task(log.flush())
    await began.wait()
    second = asyncio.create_task(log.flush())
    await asyncio.sleep(0)
    assert not second.done()
    gate.set()
    await asyncio.gather(first, second)


async def test_public_prefixes_of_another_tokenizer_are_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.cache.public_prefixes.RETRY_AFTER_S", 0.0)
    hashes = iter(["old", "new", "new"])

    async def prepare(request: Any, **options: Any) -> PrepareResponse:
        return PrepareResponse(token_ids=range(32), tokenizer_hash=next(hashes))

    tokenizer: Any = SimpleNamespace(Prepare=prepare)
    prefixes = PublicPrefixes(["You are kind."], tokenizer)
    model = ModelIdentity(model="m", tokenizer_hash="new")
    await prefixes.learn(model)
    await until(lambda: prefixes.num_public_pages(model, range(32)) == 2)


async def test_a_base_that_is_dropped_while_it_is_loaded_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, began = asyncio.Event(), asyncio.Event()
    data = b"index"

    async def part(*args: Any) -> bytes:
        began.set()
        await gate.wait()
        return data

    monkeypatch.setattr("services.cache.knowledge.copies.BaseSearcher", lambda folder: None)
    fakes: list[Any] = [SimpleNamespace(get_part=part), Guard()]
    copies = Copies(tmp_path, *fakes, part_budget_s=1.0, max_open=2)
    keys = BaseKeys("t", "faq")
    file = IndexFile(name="f", size=len(data), sha256=hashlib.sha256(data).hexdigest())
    manifest: Any = SimpleNamespace(version=1, files=(file,), analyzer=ANALYZER)
    loading = asyncio.create_task(copies.load(keys, manifest))
    await began.wait()
    forgetting = asyncio.create_task(copies.forget(keys))
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(loading, forgetting, return_exceptions=True)
    assert not isinstance(loading.exception(), Damaged)
    assert copies.current(keys, 1) is None
    assert files_below(tmp_path) == []


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]
