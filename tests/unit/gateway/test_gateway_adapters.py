"""What a model name asks for, which engines hold it, and who may have it."""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from redis.exceptions import RedisError

from services.gateway import adapters as module
from services.gateway.adapters import NO_ADAPTER, AdapterPermits, WantedAdapter, split_name
from services.gateway.config import GatewayConfig
from services.gateway.core import AdapterInfo, ModelInfo
from services.gateway.engine_link import EngineLost
from services.gateway.engines import ANY_MODE, Engines, _take_any_generation
from services.gateway.http.models import find_object, list_objects, served_name
from services.gateway.job import make_job
from services.gateway.placement import Placement
from services.gateway.prepare import with_adapter
from stagemesh.api.common.v1.common_pb2 import FINISH_REASON_STOP, ModelIdentity
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.breaker import Breaker, BreakerConfig
from stagemesh.runtime.deadline import Deadline
from stagemesh.runtime.errors import NotFound, Unavailable
from stagemesh.runtime.mesh_config import DEFAULT_MODEL, MeshConfig

MESH = MeshConfig(aliases={"small": DEFAULT_MODEL, "odd:name": DEFAULT_MODEL})
FIRST = engine_pb2.Adapter(name="red", generation=1, revision="aa")
SECOND = engine_pb2.Adapter(name="red", generation=2, revision="bb")
GREEN = engine_pb2.Adapter(name="green", generation=1, revision="cc")


class Link:
    """An engine that is up."""

    ready = True

    def __init__(self, *adapters: engine_pb2.Adapter) -> None:
        self.description = engine_pb2.DescribeResponse()
        self.description.model.model = "m"
        self.adapters = adapters
        self.load = engine_pb2.WatchLoadResponse()


@pytest.fixture
def engines() -> Engines:
    made: Any = Engines([], max_message_bytes=65_536)
    made._links = {"a": Link(FIRST, GREEN), "b": Link(SECOND, FIRST), "c": Link()}
    return made  # type: ignore[no-any-return]  # an Engines


@pytest.mark.parametrize(
    ("name", "model", "adapter"),
    [
        ("", "", ""),
        (DEFAULT_MODEL, DEFAULT_MODEL, ""),
        (f"{DEFAULT_MODEL}:red", DEFAULT_MODEL, "red"),
        ("small:red", "small", "red"),
        (":red", "", "red"),
        ("odd:name", "odd:name", ""),
        ("odd:name:red", "odd:name", "red"),
        ("red", "red", ""),
    ],
)
def test_a_model_name_may_end_with_an_adapter(name: str, model: str, adapter: str) -> None:
    assert split_name(name, MESH) == (model, adapter)


def test_a_job_knows_its_model_and_its_adapter() -> None:
    def job(name: str) -> Any:
        return make_job("t", gateway_pb2.InferenceRequest(prompt="x", model=name), MESH, GatewayConfig())

    assert (job("small:red").model, job("small:red").adapter) == (DEFAULT_MODEL, "red")
    assert job("small").adapter == ""
    assert job("small:red").payload_hash != job("small:green").payload_hash
    with pytest.raises(NotFound):
        job("nothing:red")
    with pytest.raises(NotFound, match="'small:' is not served"):
        job("small:")


def test_a_request_goes_to_engines_that_hold_its_adapter(engines: Engines) -> None:
    links: Any = engines._links
    assert engines.serving("m", ANY_MODE, WantedAdapter("red")) == [links["a"], links["b"]]
    assert engines.serving("m", ANY_MODE, WantedAdapter("red", 2, "bb")) == [links["b"]]
    assert engines.serving("m", ANY_MODE, WantedAdapter("red", 2, "aa")) == []
    assert len(engines.serving("m", ANY_MODE, NO_ADAPTER)) == 3


def test_an_adapter_that_no_engine_holds_is_unknown_unless_all_are_away(engines: Engines) -> None:
    engines.check_adapter("m", "green")
    engines.check_adapter("m", "")
    engines.check_adapter("other", "green")  # nothing is known of it: its engines may come up
    with pytest.raises(NotFound, match="m:blue"):
        engines.check_adapter("m", "blue")
    links: Any = engines._links
    links["a"].ready = False
    engines.check_adapter("m", "green")  # the one that holds it may come back


def test_the_identity_names_the_newest_generation(engines: Engines) -> None:
    base = ModelIdentity(model="m", precision="q8_0")
    found = with_adapter(base, WantedAdapter("red"), engines.adapters("m"))
    assert found == ModelIdentity(
        model="m", precision="q8_0", adapter="red", adapter_generation=2, adapter_revision="bb"
    )
    assert not base.adapter
    with pytest.raises(NotFound):
        with_adapter(base, WantedAdapter("blue"), engines.adapters("m"))


def test_before_the_first_token_another_generation_will_do() -> None:
    model = ModelIdentity(model="m", adapter="red", adapter_generation=1, adapter_revision="aa")
    _take_any_generation(model)
    assert model == ModelIdentity(model="m", adapter="red")


def test_engines_without_the_adapter_do_not_keep_a_full_one_from_being_full(engines: Engines) -> None:
    links: Any = engines._links
    links["a"].load = engine_pb2.WatchLoadResponse(waiting=5)
    assert engines.is_over("m", ANY_MODE, 5, WantedAdapter("green"))
    assert not engines.is_over("m", ANY_MODE, 5, WantedAdapter("red"))


class Store:
    def __init__(self) -> None:
        self.adapters: dict[str, frozenset[str]] = {"acme": frozenset({"red"}), "all": frozenset({"*"})}
        self.is_away = False
        self.num_calls = 0

    async def lookup(self, tenant_id: str) -> frozenset[str]:
        self.num_calls += 1
        if self.is_away:
            raise RedisError("away")
        return self.adapters.get(tenant_id, frozenset())


async def test_a_tenant_may_use_what_is_permitted_to_it_and_what_all_share() -> None:
    permits = AdapterPermits(Store().lookup, shared=["green"])
    assert await permits.allows("acme", "red")
    assert await permits.allows("acme", "green")
    assert not await permits.allows("acme", "blue")
    assert not await permits.allows("globex", "red")
    assert await permits.allows("all", "blue")
    assert await AdapterPermits(Store().lookup, shared=["*"]).allows("globex", "blue")


async def test_permits_are_remembered_for_a_while_and_longer_while_the_store_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = Store()
    permits = AdapterPermits(store.lookup, shared=[])
    for _ in range(3):
        assert await permits.allows("acme", "red")
    assert store.num_calls == 1
    monkeypatch.setattr(module, "FRESH_S", 0.0)
    store.is_away = True
    assert await permits.allows("acme", "red")
    with pytest.raises(Unavailable):
        await permits.allows("globex", "red")
    store.is_away, store.adapters["acme"] = False, frozenset()
    assert not await permits.allows("acme", "red")


def test_adapters_are_listed_as_models_behind_their_base() -> None:
    base = ModelInfo("m", ("small",), 1, 2048)
    listed = list_objects([base], [AdapterInfo("red", base)])
    assert [entry["id"] for entry in listed] == ["m", "small", "m:red"]
    assert (listed[2]["root"], listed[2]["parent"]) == ("m", "m")
    assert find_object([base], [AdapterInfo("red", base)], "m:red") == listed[2]
    with pytest.raises(NotFound):
        find_object([base], [], "m:red")
    assert served_name([base], "small:red") == "m:red"
    assert served_name([base], ":red") == "m:red"
    assert served_name([base], "") == "m"
    assert served_name([base], "what") == "what"


class RunningLink(Link):
    """An engine that is lost after the first of two tokens, unless it is the last that is asked."""

    in_flight_tokens = 0

    def __init__(self, *adapters: engine_pb2.Adapter, breaks: bool) -> None:
        super().__init__(*adapters)
        self.breaks = breaks
        self.address = "first" if breaks else f"{id(self)}"
        self.breaker = Breaker(BreakerConfig())
        self.asked: list[engine_pb2.Submit] = []

    async def run(self, submit: engine_pb2.Submit) -> AsyncGenerator[engine_pb2.SequenceDelta]:
        self.asked.append(copy.deepcopy(submit))
        first = len(submit.delivered_token_ids)
        yield engine_pb2.SequenceDelta(first_index=first, token_ids=[first])
        if self.breaks:
            self.ready = False
            raise EngineLost("x")
        delta = engine_pb2.SequenceDelta(first_index=first + 1, token_ids=[first + 1])
        delta.finish.reason = FINISH_REASON_STOP
        yield delta


async def tokens_of(links: dict[str, RunningLink], model: ModelIdentity) -> list[int]:
    engines: Any = Engines([], max_message_bytes=65_536)
    engines._links = links
    deltas = engines.run(
        "m",
        engine_pb2.Submit(sequence_id="s", model=model),
        Deadline.after(5),
        max_attempts=3,
        engine_wait_s=0.05,
        placement=Placement(preferred="first"),
    )
    return [token async for delta, _ in deltas for token in delta.token_ids]


async def test_a_sequence_goes_on_only_where_the_same_generation_is_held() -> None:
    model = ModelIdentity(model="m", adapter="red", adapter_generation=1, adapter_revision="aa")
    lost, other, same = (
        RunningLink(FIRST, breaks=True),
        RunningLink(SECOND, breaks=False),
        RunningLink(SECOND, FIRST, breaks=False),
    )
    with pytest.raises(Unavailable):
        await tokens_of({"lost": lost, "other": other}, model)
    assert not other.asked, "what was delivered came from another generation"
    lost.ready = True
    same.ready = False
    links = {"lost": lost, "other": other, "same": same}

    class ComesUp(RunningLink):
        """The engine with the same generation is up again when the first one is lost."""

        async def run(self, submit: engine_pb2.Submit) -> AsyncGenerator[engine_pb2.SequenceDelta]:
            same.ready = True
            async for delta in super().run(submit):
                yield delta

    links["lost"] = ComesUp(FIRST, breaks=True)
    assert await tokens_of(links, model) == [0, 1, 2]
    assert same.asked[0].model == model
    assert list(same.asked[0].delivered_token_ids) == [0]


async def test_a_sequence_without_tokens_takes_the_generation_that_came_meanwhile() -> None:
    model = ModelIdentity(model="m", adapter="red", adapter_generation=1, adapter_revision="aa")
    other = RunningLink(SECOND, breaks=False)
    assert await tokens_of({"other": other}, model) == [0, 1]
    assert other.asked[0].model == ModelIdentity(model="m", adapter="red")
