"""From a command to a sequence that the core has: at once, or while it is still starting."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from engine_support import make_sequence

from services.engine.core_thread import Add, Command, ForgetTenant
from services.engine.ending import Ending
from services.engine.registry import Registry, RegistryLimits
from services.engine.sequence import Sequence
from services.engine.subscriber import Subscriber
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.runtime.errors import AlreadyExists


class SlowFactory:
    """Compiles until it is told to stop."""

    def __init__(self) -> None:
        self.goes_on = asyncio.Event()

    def check(self, submit: engine_pb2.Submit) -> None:
        """Everything is well."""

    def builds_at_once(self, submit: engine_pb2.Submit) -> bool:
        """By name."""
        return submit.sequence_id == "plain"

    def build_at_once(self, submit: engine_pb2.Submit, params: object) -> tuple[Sequence, Ending | None]:
        return make_sequence(submit.sequence_id, [1, 2], salt=b"s", tenant=submit.tenant_id), None

    async def build(self, submit: engine_pb2.Submit, params: object) -> tuple[Sequence, Ending | None]:
        await self.goes_on.wait()
        return make_sequence(submit.sequence_id, [1, 2], salt=b"s", tenant=submit.tenant_id), None


async def test_a_plain_sequence_is_the_cores_when_its_command_has_been_taken() -> None:
    factory: Any = SlowFactory()
    sent, subscriber = list[Command](), Subscriber(grace_s=1.0)
    registry = Registry(factory, sent.append, RegistryLimits(max_live=9, result_grace_s=1.0))
    registry.submit(engine_pb2.Submit(sequence_id="plain", tenant_id="alice"), subscriber)
    (command,) = sent
    assert isinstance(command, Add)
    assert command.sequence.sequence_id == "plain"
    assert registry.num_starting == 0
    with pytest.raises(AlreadyExists):  # it is known by what it asked for
        registry.submit(engine_pb2.Submit(sequence_id="plain", tenant_id="bob"), subscriber)


async def test_a_sequence_that_was_starting_when_its_tenant_was_erased_leaves_nothing_behind() -> None:
    factory, sent = SlowFactory(), list[Command]()
    slow: Any = factory
    registry = Registry(slow, sent.append, RegistryLimits(max_live=9, result_grace_s=1.0))
    for name, tenant in (("a", "alice"), ("b", "bob")):
        submit = engine_pb2.Submit(sequence_id=name, tenant_id=tenant)
        registry.submit(submit, Subscriber(grace_s=1.0))
    registry.forget("alice")
    registry.submit(engine_pb2.Submit(sequence_id="later", tenant_id="alice"), Subscriber(grace_s=1.0))
    factory.goes_on.set()
    async with asyncio.timeout(20):
        while registry.num_starting:
            await asyncio.sleep(0)
    assert sent[0] == ForgetTenant("alice")
    started = {command.sequence.sequence_id: command.sequence.table for command in sent if isinstance(command, Add)}
    assert {name: table.is_forgotten for name, table in started.items()} == {"a": True, "b": False, "later": False}
    registry.close()
