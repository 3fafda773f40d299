"""All engines: which serve a model, which one takes the next sequence, and how a sequence outlives its engine."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from ipaddress import ip_address

from services.gateway import metrics
from services.gateway.adapters import NO_ADAPTER, SEPARATOR, WantedAdapter, unknown_model
from services.gateway.engine_link import EngineLink, EngineLost
from services.gateway.moves import Moves, faults_on_the_way
from services.gateway.placement import Placement, choose
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.runtime.breaker import BreakerConfig
from stagemesh.runtime.deadline import Deadline
from stagemesh.runtime.errors import Unavailable
from stagemesh.runtime.precision_mode import mode_name, mode_unavailable
from stagemesh.runtime.telemetry import get_logger

ANY_MODE = common_pb2.PRECISION_MODE_UNSPECIFIED
RESOLVE_EVERY_S = 5.0
POLL_S = 0.02

log = get_logger(__name__)


class Engines:
    """Links to every engine address; a host name stands for all addresses that DNS gives for it, now and later."""

    def __init__(
        self, addresses: Sequence[str], *, max_message_bytes: int, breaker: BreakerConfig | None = None
    ) -> None:
        self._addresses = addresses
        self._breaker = breaker or BreakerConfig()
        self._max_message_bytes = max_message_bytes
        self._links: dict[str, EngineLink] = {}
        self.shares: dict[str, float] = {}
        """Of its usual work, by instance, for engines whose device is hot; 0: it gets no new sequences."""
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self._resolve()
        self._task = asyncio.create_task(self._keep_resolving(), name="engines-resolve")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.gather(*(link.close() for link in self._links.values()))

    def links(self) -> list[EngineLink]:
        """All, also those that are away."""
        return list(self._links.values())

    def configure(self, breaker: BreakerConfig) -> None:
        """Take other thresholds for the breakers of all engines."""
        self._breaker = breaker
        for link in self._links.values():
            link.breaker.configure(breaker)

    def serving(
        self,
        model: str,
        mode: common_pb2.PrecisionMode.ValueType = ANY_MODE,
        adapter: WantedAdapter = NO_ADAPTER,
    ) -> list[EngineLink]:
        """Links that are up, serve `model` and hold it in `mode` with `adapter`."""
        return [
            link
            for link in self._links.values()
            if link.ready
            and link.description is not None
            and link.description.model.model == model
            and (mode == ANY_MODE or mode in _modes(link))
            and adapter.is_held_by(link)
        ]

    def describe(
        self,
        model: str,
        mode: common_pb2.PrecisionMode.ValueType = ANY_MODE,
        adapter: WantedAdapter = NO_ADAPTER,
    ) -> engine_pb2.DescribeResponse | None:
        """What the engines of `model` are, if any is up."""
        links = self.serving(model, mode, adapter)
        return links[0].description if links else None

    def adapters(self, model: str) -> list[engine_pb2.Adapter]:
        """All generations of all adapters that engines of `model` hold."""
        return [adapter for link in self.serving(model) for adapter in link.adapters]

    def check_adapter(self, model: str, adapter: str) -> None:
        """Raise NotFound where engines of `model` are up and none, nor one that is away now, holds `adapter`."""
        wanted = WantedAdapter(adapter)
        of_model = [link for link in self._links.values() if link.description and link.description.model.model == model]
        if adapter and self.serving(model) and not any(map(wanted.is_held_by, of_model)):
            raise unknown_model(f"{model}{SEPARATOR}{adapter}")

    def check_mode(self, model: str, mode: common_pb2.PrecisionMode.ValueType) -> None:
        """Raise Precondition where engines of `model` are up and none, nor one that is away now, holds it in `mode`."""
        name, links = mode_name(mode), self.serving(model)
        described = ((link, link.description) for link in self._links.values())
        held = {
            known
            for link, description in described
            if description is not None and description.model.model == model
            for known in _modes(link)
        }
        if name and links and mode not in held:
            raise mode_unavailable(name, model, map(mode_name, held))

    def is_over(
        self,
        model: str,
        mode: common_pb2.PrecisionMode.ValueType,
        queue_limit: int,
        adapter: WantedAdapter = NO_ADAPTER,
    ) -> bool:
        """Whether every engine of `model` that holds it in `mode` has at least `queue_limit` sequences waiting."""
        links = self.serving(model, mode, adapter)
        return bool(links) and all(link.load.waiting >= max(1, queue_limit) for link in links)

    async def forget(self, tenant_id: str) -> None:
        """Have all engines keep nothing of a tenant for reuse."""
        await asyncio.gather(*(link.forget(tenant_id) for link in self._links.values()))

    async def wait_for(
        self,
        model: str,
        mode: common_pb2.PrecisionMode.ValueType,
        deadline: Deadline,
        at_most_s: float,
        adapter: WantedAdapter = NO_ADAPTER,
    ) -> engine_pb2.DescribeResponse:
        """The description of an engine that serves `model` in `mode`, waiting for one.

        Raises Unavailable or DeadlineExceeded.
        """
        until = Deadline.after(deadline.budget_s(at_most_s))
        while (found := self.describe(model, mode, adapter)) is None:
            if until.expired():
                deadline.budget_s()  # it may be the request's own time that is over
                raise Unavailable("ENGINE_UNAVAILABLE", f"no engine serves {model} at the moment", retry_after_ms=2_000)
            await asyncio.sleep(POLL_S)
        return found

    async def run(
        self,
        model: str,
        submit: engine_pb2.Submit,
        deadline: Deadline,
        *,
        max_attempts: int,
        engine_wait_s: float,
        placement: Placement,
    ) -> AsyncGenerator[tuple[engine_pb2.SequenceDelta, int]]:
        """Deltas of one sequence with the number of the attempt, without gap or repeat, whichever engines produce them.

        An engine that is lost, or has a fault of its own, is replaced by another (or itself, restarted), which goes on
        after the tokens delivered so far. `placement` says where to go at first, and afterwards who answered. Raises
        Unavailable, or the engine's own error, when the attempts are used up.
        """
        delivered = list(submit.delivered_token_ids)
        moves = Moves()
        for attempt in range(1, max_attempts + 1):
            await moves.pause()
            mode = submit.policy.precision_mode
            if not delivered and not self.serving(model, mode, WantedAdapter.of(submit.model)):
                _take_any_generation(submit.model)
            adapter = WantedAdapter.of(submit.model)
            await self.wait_for(model, mode, deadline, engine_wait_s, adapter)
            links = self.serving(model, mode, adapter)
            if not links:
                continue
            link = choose(moves.candidates(self._cool(links)), placement.preferred, placement.slack_tokens)
            link.breaker.call()
            placement.went_to(link)
            submit.faults = faults_on_the_way()
            del submit.delivered_token_ids[:]
            submit.delivered_token_ids.extend(delivered)
            try:
                async with aclosing(link.run(submit)) as deltas:
                    async for delta in deltas:
                        _drop_known(delta, len(delivered))
                        delivered.extend(delta.token_ids)
                        moves.heard(delta)
                        goes_on_elsewhere = moves.take_finish(delta, link)
                        yield delta, attempt
                        if delta.HasField("finish"):
                            return
                        if goes_on_elsewhere:
                            break
            except EngineLost:
                moves.lost(link)
            log.warning("sequence continues elsewhere", sequence_id=submit.sequence_id, delivered=len(delivered))
        raise moves.fault or Unavailable(
            "ENGINE_LOST", f"{max_attempts} engines were lost while they worked on this request", retry_after_ms=2_000
        )

    def _cool(self, links: list[EngineLink]) -> list[EngineLink]:
        """Without those whose device must rest; all of them where every one must, since accepted work is not lost."""
        resting = {instance for instance, share in self.shares.items() if share == 0}
        return [link for link in links if link.description and link.description.instance not in resting] or links

    async def _keep_resolving(self) -> None:
        while True:
            await asyncio.sleep(RESOLVE_EVERY_S)
            await self._resolve()

    async def _resolve(self) -> None:
        endpoints: set[str] = set()
        for address in self._addresses:
            try:
                endpoints.update(await _endpoints(address))
            except OSError as error:
                log.warning("engine address does not resolve", address=address, error=str(error))
                endpoints.update(known for known in self._links if known not in self._addresses)
        for endpoint in endpoints - self._links.keys():
            self._links[endpoint] = EngineLink(
                endpoint, max_message_bytes=self._max_message_bytes, breaker=self._breaker
            )
            metrics.watch_breaker(f"engine {endpoint}", self._links[endpoint].breaker)
        for endpoint in self._links.keys() - endpoints:
            if not self._links[endpoint].ready:
                await self._links.pop(endpoint).close()


def _take_any_generation(model: common_pb2.ModelIdentity) -> None:
    """Nothing has been generated yet, so a generation that came meanwhile may do it."""
    model.adapter_generation = 0
    model.adapter_revision = ""


def _modes(link: EngineLink) -> list[common_pb2.PrecisionMode.ValueType]:
    return [] if link.description is None else [held.mode for held in link.description.modes]


async def _endpoints(address: str) -> list[str]:
    host, _, port = address.rpartition(":")
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, int(port), type=socket.SOCK_STREAM, family=socket.AF_UNSPEC)
        return [f"[{info[4][0]}]:{port}" if info[0] is socket.AF_INET6 else f"{info[4][0]}:{port}" for info in found]
    return [address]


def _drop_known(delta: engine_pb2.SequenceDelta, num_known: int) -> None:
    """Cut tokens that were delivered before; a gap cannot be mended here and counts as a lost engine."""
    if not delta.token_ids:
        return
    if delta.first_index > num_known:
        raise EngineLost(f"gap: token {delta.first_index} came after {num_known}")
    if known := num_known - delta.first_index:
        del delta.token_ids[:known]
        del delta.logprobs[:known]
        delta.first_index = num_known
