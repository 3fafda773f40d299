"""Composition of the gateway's process: connections, loops and fronts, and the order in which they start and stop."""

from __future__ import annotations

import asyncio
from ipaddress import ip_address

import grpc

from services.gateway import metrics
from services.gateway.adapters import AdapterPermits
from services.gateway.admission import RouteQueue
from services.gateway.alerts import Alerts
from services.gateway.commits import SessionCommits
from services.gateway.config import GatewayConfig
from services.gateway.core import Gateway
from services.gateway.corrections import CorrectionPublisher
from services.gateway.deferral import Deferral
from services.gateway.deferral_lag import DeferralLag
from services.gateway.deferred_admin import DeferredAdmin
from services.gateway.deferred_runs import DeferredRuns
from services.gateway.deferred_servicer import DeferredServicer
from services.gateway.event_store import EventStore
from services.gateway.http.server import HttpServer
from services.gateway.kv_reports import KvReports
from services.gateway.leases import LeaseKeeper
from services.gateway.ledger import Ledger
from services.gateway.modes import Modes
from services.gateway.peers import Peers, connect
from services.gateway.quality_servicer import QualityServicer
from services.gateway.rates.exchange import RateExchange
from services.gateway.rates.guards import Guards
from services.gateway.rates.sampler import LoadSampler
from services.gateway.reloading import Reloading
from services.gateway.request_erasure import RequestErasure
from services.gateway.runner import Runner
from services.gateway.servicer import GatewayServicer
from services.gateway.sessions_servicer import SessionsServicer
from services.gateway.shadow import ShadowPublisher
from services.gateway.store import GuardedLedger
from services.gateway.tenants import Tenants
from services.gateway.traces.store import TraceStore
from services.gateway.usage import UsageAccounts
from stagemesh.api.gateway.v1 import deferred_pb2_grpc, gateway_pb2_grpc, quality_pb2_grpc, sessions_pb2_grpc
from stagemesh.runtime import redis_client, tenants
from stagemesh.runtime.identity import Identity, process_identity
from stagemesh.runtime.kafka_client import EventProducer
from stagemesh.runtime.mesh_config import MeshConfig
from stagemesh.runtime.outbox import Entry, Outbox
from stagemesh.runtime.relay import Relay, RelayConfig
from stagemesh.runtime.telemetry import get_logger
from stagemesh.runtime.topics import ALERTS, ANSWERS_STABLE, CORRECTIONS, DEFERRED, Topic

log = get_logger(__name__)

READY_POLL_S = 0.05
MAX_WAITING_ALERTS = 1_000
"""That the broker has not taken; beyond it they are counted as dropped."""
MAX_WAITING_CORRECTIONS = 10_000
"""Further ones are dropped until the broker has taken some; see `stagemesh_correction_events_total`."""


class GatewayService:
    service_names = (
        "stagemesh.api.gateway.v1.GatewayService",
        "stagemesh.api.gateway.v1.SessionsService",
        "stagemesh.api.gateway.v1.QualityService",
        "stagemesh.api.gateway.v1.DeferredService",
    )

    def __init__(self, mesh: MeshConfig, config: GatewayConfig, identity: Identity, peers: Peers) -> None:
        """Must be made inside the running event loop."""
        self._config, self._mesh, self._peers = config, mesh, peers
        self._redis = redis_client.connect(mesh.ledger_url, command_timeout_s=2.0)
        ledger = Ledger(
            self._redis,
            owner=f"{identity.instance}/{identity.generation}",
            lease_s=config.lease_s,
            outcome_ttl_s=config.outcome_ttl_s,
        )
        self._ledger = GuardedLedger(ledger, timeout_s=config.ledger_timeout_s)
        self._events = EventStore(self._redis, ttl_s=config.outcome_ttl_s)
        self._commits = SessionCommits(peers.cache)
        self._kv_reports = KvReports(peers.cache)
        self._traces = TraceStore(self._redis, ttl_s=config.trace_ttl_s, routes=config.routes)
        guards = Guards(config.guards)
        self._sampler = LoadSampler(peers.engines, guards)
        every_s = min(config.guards.all_tenants.refresh_s, config.guards.tenant.refresh_s)
        who = f"{identity.instance}/{identity.generation}"
        self._rates = RateExchange(self._redis, guards.rates, who, every_s=every_s)
        deferred = self._outbox(DEFERRED, config.max_deferred, ttl_s=config.deferred_ttl_s)
        self._deferred_admin = DeferredAdmin(self._redis, ledger, deferred, ttl_s=config.deferred_ttl_s)
        self._producer = EventProducer(mesh.kafka_bootstrap, settings=mesh.kafka_settings)
        relay = RelayConfig(republish_after_s=config.republish_after_s)
        few = RelayConfig(republish_after_s=config.republish_after_s, window=32)  # so that priorities decide late
        self._relays = [Relay(deferred, self._producer, few, expired=self._expire)]
        alerts = self._outbox(ALERTS, MAX_WAITING_ALERTS)
        self._alerts = Alerts(alerts)
        told = RelayConfig(republish_after_s=config.republish_after_s, is_done_when_published=True)
        self._relays.append(Relay(alerts, self._producer, told))
        self._usage = UsageAccounts(config.modes, self._redis, self._ledger)
        self._shadow: ShadowPublisher | None = None
        if mesh.shadow.candidate:
            answers = self._outbox(ANSWERS_STABLE, mesh.shadow.max_outbox_events)
            self._shadow = ShadowPublisher(answers, max_buffered=mesh.shadow.max_buffered_events)
            self._relays.append(Relay(answers, self._producer, relay))
        corrections = self._outbox(CORRECTIONS, MAX_WAITING_CORRECTIONS)
        self._corrections = CorrectionPublisher(corrections, lambda: tenants.sharing_corrections(self._redis))
        self._relays.append(Relay(corrections, self._producer, told))
        queues = {name: RouteQueue(route) for name, route in config.routes.items()}
        metrics.watch_queues(queues)
        runner = Runner(
            config=config,
            peers=peers,
            ledger=self._ledger,
            deferral=Deferral(self._redis, ledger, deferred, config),
            commits=self._commits,
            kv_reports=self._kv_reports,
            traces=self._traces,
            guards=guards,
            shadow=self._shadow,
            corrections=self._corrections,
            queues=queues,
            modes=Modes(config.modes, peers.engines, self._redis, self._ledger, self._alerts),
            usage=self._usage,
        )
        self.gateway = Gateway(
            mesh=mesh,
            config=config,
            identity=identity,
            tenants=Tenants(
                lambda api_key: tenants.tenant_of(self._redis, api_key), allow_dev=_is_private(mesh, config)
            ),
            runner=runner,
            events=self._events,
            permits=AdapterPermits(self._adapters_of, shared=config.shared_adapters),
            erasure=RequestErasure(self._redis, ledger, deferred, self._traces),
        )
        self._deferred = DeferredRuns(self.gateway, runner, config)
        self._leases = LeaseKeeper(
            self.gateway, self._deferred, self._ledger, lease_s=config.lease_s, max_runs=config.deferred_max_runs
        )
        self._lag = DeferralLag(deferred)
        self._reloading: Reloading | None = None
        self._http = HttpServer(self.gateway, config)

    def _outbox(self, topic: Topic, max_entries: int, *, ttl_s: int | None = None) -> Outbox:
        kept_s = self._config.outcome_ttl_s if ttl_s is None else ttl_s
        prefix = self._mesh.kafka_topic_prefix
        return Outbox(self._redis, topic, ttl_s=kept_s, max_entries=max_entries, prefix=prefix)

    async def _adapters_of(self, tenant_id: str) -> frozenset[str]:
        if tenant_id == tenants.DEV_TENANT:
            return frozenset({tenants.ALL_ADAPTERS})
        return await tenants.adapters_of(self._redis, tenant_id)

    def register(self, server: grpc.aio.Server) -> None:
        servicer = GatewayServicer(self.gateway, self._deferred, self._config, self._mesh.mesh_token.get_secret_value())
        gateway_pb2_grpc.add_GatewayServiceServicer_to_server(servicer, server)
        sessions = SessionsServicer(self.gateway, self._peers, self._config, self._corrections)
        sessions_pb2_grpc.add_SessionsServiceServicer_to_server(sessions, server)
        quality = QualityServicer(self.gateway, self._peers, self._config, self._corrections)
        quality_pb2_grpc.add_QualityServiceServicer_to_server(quality, server)
        token = self._mesh.mesh_token.get_secret_value()
        deferred = DeferredServicer(self.gateway, self._deferred_admin, self._config, token)
        deferred_pb2_grpc.add_DeferredServiceServicer_to_server(deferred, server)

    async def start(self) -> None:
        """Open the HTTP port at once (it says that it is not ready), then wait for an engine of each model."""
        if self._mesh.environment != "production" and not _is_private(self._mesh, self._config):
            log.warning("listening beyond this machine in a development environment, where faults may be posted")
        await self._http.start()
        for relay in self._relays:
            relay.start()
        self._reloading = Reloading(self._peers.breakers, self._peers.engines)
        while await self.gateway.readiness():  # noqa: ASYNC110  it depends on other processes
            await asyncio.sleep(READY_POLL_S)

    async def drain(self, grace_s: float) -> None:
        await self.gateway.drain(grace_s)
        await self._http.drain(1.0)
        await self._commits.drain(2.0)
        await self._kv_reports.drain(1.0)
        await self._alerts.drain(1.0)

    async def close(self) -> None:
        await self._http.stop()
        if self._reloading is not None:
            await self._reloading.close()
        await self._leases.close()
        await self._lag.close()
        await self._sampler.close()
        await self._rates.close()
        if self._shadow is not None:
            await self._shadow.close(2.0)
        await self._corrections.close(2.0)
        for relay in self._relays:
            await relay.stop()
        await self._events.close()
        await self._traces.close()
        await self._usage.close(1.0)
        await self._ledger.close(2.0)
        await self._producer.close(1.0)
        await self._peers.close()
        await self._redis.aclose()

    async def _expire(self, entry: Entry) -> None:
        await self._deferred.expire(entry.tenant_id, entry.request_id)


def _is_private(mesh: MeshConfig, config: GatewayConfig) -> bool:
    """Whether both fronts listen on loopback alone: only then does the development tenant exist."""
    addresses = (config.listen or mesh.addresses.gateway, config.http_listen)
    return all(_is_loopback(address.rpartition(":")[0].strip("[]")) for address in addresses)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def compose(mesh: MeshConfig, config: GatewayConfig) -> GatewayService:
    return GatewayService(mesh, config, process_identity("gateway"), await connect(mesh, config.breakers))
