"""The ledger on a real Valkey, random orders of calls and faults: every request has exactly one final transition.

Three gateways begin, renew, defer, claim, release and finish the same request. A call may get no reply although the
server carries it out (the server is stopped until the caller has given up), the server may be killed and come back from
its append-only file, and time passes, so that leases lapse.
"""

import asyncio
import os
import signal
import time
import uuid
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from quality_support import Valkey
from redis.exceptions import RedisError

from services.gateway.ledger import Begun, Claim, Entry, Ledger
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.redis_client import Redis, connect

LEASE_S = 0.03
REPLY_S = 0.05
OWNERS = st.sampled_from("abc")
OUTCOMES = st.sampled_from(
    [common_pb2.OUTCOME_COMPLETE, common_pb2.OUTCOME_CANCELLED, common_pb2.OUTCOME_DEAD_LETTERED]
)

T = TypeVar("T")


class LedgerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.server = Valkey(Path(self.folder.name))  # it writes every command to disk before it replies
        self.server.start()
        self.loop = asyncio.Runner()
        self.clients: list[Redis] = []
        self.asked = gateway_pb2.InferenceRequest(request_id=str(uuid.uuid4()), prompt="p")
        self.begun = False
        self.known_transitions = 0
        self.unknown_transitions = 0
        """Calls of `finish` that got no reply: they may have been carried out."""
        self.final: gateway_pb2.Final | None = None

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.loop.run(coroutine)

    def ledger(self, owner: str, *, reply_s: float = 5.0) -> Ledger:
        client = connect(self.server.url, command_timeout_s=reply_s, connect_timeout_s=reply_s)
        self.clients.append(client)
        return Ledger(client, owner=owner, lease_s=LEASE_S, outcome_ttl_s=600)

    async def close_clients(self) -> None:
        while self.clients:
            await self.clients.pop().aclose()

    @contextmanager
    def silent_server(self) -> Iterator[None]:
        os.kill(self.server.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.server.pid, signal.SIGCONT)

    def lookup(self) -> Entry | None:
        async def look() -> Entry | None:
            try:
                return await self.ledger("x").lookup("t", self.asked.request_id)
            finally:
                await self.close_clients()

        return self.run(look())

    @rule(owner=OWNERS)
    def begin(self, owner: str) -> None:
        async def call() -> Begun:
            try:
                return (await self.ledger(owner).begin("t", self.asked, b"h", time.time() + 600))[0]
            finally:
                await self.close_clients()

        found = self.run(call())
        assert (found is Begun.NEW) == (not self.begun)
        self.begun = True

    @rule(owner=OWNERS, outcome=OUTCOMES, owned=st.booleans())
    def finish(self, owner: str, outcome: Any, owned: bool) -> None:
        if self.begun:
            self.known_transitions += self.run(self._finish(owner, outcome, owned=owned, reply_s=5.0))

    @rule(owner=OWNERS, outcome=OUTCOMES)
    def finish_without_a_reply(self, owner: str, outcome: Any) -> None:
        if self.begun:
            self.run(self._finish_unheard(owner, outcome))
            self.unknown_transitions += 1

    async def _finish_unheard(self, owner: str, outcome: Any) -> None:
        """The caller gives up before the server carries the call out."""
        ledger = self.ledger(owner, reply_s=REPLY_S)
        try:
            with suppress(RedisError, OSError, TimeoutError):
                await self.clients[-1].ping()  # connected and known: what follows is the call alone
                with self.silent_server():
                    await ledger.finish("t", self.final_of(outcome))
        finally:
            await self.close_clients()
        await self.clients_of("x").ping()
        await self.clients[-1].ping()  # by its second reply the server has read what lay in its sockets
        await self.close_clients()

    def clients_of(self, owner: str) -> Redis:
        self.ledger(owner)
        return self.clients[-1]

    def final_of(self, outcome: Any) -> gateway_pb2.Final:
        final = gateway_pb2.Final(request_id=self.asked.request_id, outcome=outcome)
        final.error.message = str(uuid.uuid4())  # so that two finals are never alike
        return final

    async def _finish(self, owner: str, outcome: Any, *, owned: bool, reply_s: float) -> bool:
        try:
            return await self.ledger(owner, reply_s=reply_s).finish("t", self.final_of(outcome), owned=owned)
        finally:
            await self.close_clients()

    @rule(owner=OWNERS)
    def defer(self, owner: str) -> None:
        async def call() -> bool:
            try:
                return await self.ledger(owner).defer("t", self.asked.request_id, time.time() + 600)
            finally:
                await self.close_clients()

        before = self.lookup()
        moved = self.run(call())
        assert not moved or (before is not None and before.state == "running")

    @rule(owner=OWNERS, deferred=st.booleans())
    def claim(self, owner: str, deferred: bool) -> None:
        async def call() -> Claim | Entry | None:
            try:
                return await self.ledger(owner).claim("t", self.asked.request_id, deferred=deferred)
            finally:
                await self.close_clients()

        before = self.lookup()
        found = self.run(call())
        if isinstance(found, Claim):
            assert before is not None
            assert before.state in {"running", "deferred"}
            assert found.request == self.asked

    @rule(owner=OWNERS)
    def release(self, owner: str) -> None:
        async def call() -> None:
            try:
                await self.ledger(owner).release("t", self.asked.request_id)
            finally:
                await self.close_clients()

        self.run(call())

    @rule()
    def time_passes(self) -> None:
        time.sleep(1.5 * LEASE_S)

    @rule()
    def the_server_dies_and_comes_back(self) -> None:
        self.server.kill()
        self.server.start()

    @invariant()
    def a_final_state_never_changes_and_came_about_once(self) -> None:
        entry = self.lookup()
        assert (entry is not None) == self.begun
        if self.final is not None:
            assert entry is not None
            assert entry.final == self.final
        if entry is not None and entry.final is not None:
            self.final = entry.final
            assert self.known_transitions == 1 or (self.known_transitions == 0 and self.unknown_transitions)
        else:
            assert self.known_transitions == 0

    def teardown(self) -> None:
        """Whatever happened, somebody can bring it to its end, once."""
        try:
            if self.begun and self.final is None:
                self.known_transitions += self.run(
                    self._finish("z", common_pb2.OUTCOME_DEAD_LETTERED, owned=False, reply_s=5.0)
                )
                assert self.known_transitions == 1
            self.a_final_state_never_changes_and_came_about_once()
        finally:
            self.loop.close()
            self.server.kill()
            self.folder.cleanup()


TestLedger = LedgerMachine.TestCase
TestLedger.settings = settings(
    max_examples=4, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck)
)
