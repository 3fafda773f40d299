"""What can be wrong: whose fault it is, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    MODEL = "model"
    INFRASTRUCTURE = "infrastructure"
    NETWORK = "network"


@dataclass(frozen=True, kw_only=True)
class Cause:
    name: str
    kind: Kind
    fix: str


MODEL, INFRASTRUCTURE, NETWORK = Kind.MODEL, Kind.INFRASTRUCTURE, Kind.NETWORK

CAUSES = {
    cause.name: cause
    for cause in (
        Cause(
            name="bad_config", kind=INFRASTRUCTURE, fix="correct the key that the message names, then `stagemesh up`"
        ),
        Cause(
            name="dns_missing", kind=NETWORK, fix="correct the host name in the configuration, or make the DNS entry"
        ),
        Cause(
            name="port_clash",
            kind=NETWORK,
            fix="end what holds the port, or choose another with --grpc-port, --http-port",
        ),
        Cause(
            name="disk_full",
            kind=INFRASTRUCTURE,
            fix="free space or quota for the state folder, or move it with --state",
        ),
        Cause(name="clock_skew", kind=INFRASTRUCTURE, fix="set the clocks of both machines, e.g. by NTP"),
        Cause(name="redis_down", kind=INFRASTRUCTURE, fix="start the Redis server, or correct its URL"),
        Cause(
            name="redis_slow",
            kind=INFRASTRUCTURE,
            fix="look at the Redis server's load (`SLOWLOG GET`) and at the way to it",
        ),
        Cause(
            name="broker_down", kind=INFRASTRUCTURE, fix="start the broker, or correct kafka_bootstrap; nothing is lost"
        ),
        Cause(
            name="engine_oom", kind=INFRASTRUCTURE, fix="give the engine more memory, or lower engine.kv_pool_tokens"
        ),
        Cause(name="nan_weights", kind=MODEL, fix="`stagemesh model verify`; pull the model again, or report it"),
        Cause(
            name="process_hang",
            kind=INFRASTRUCTURE,
            fix="the supervisor restarts it after supervisor.stuck_after_s; look at its log",
        ),
        Cause(
            name="stage_hang",
            kind=INFRASTRUCTURE,
            fix="restart the process (`kill`; the supervisor starts it); look at its log",
        ),
        Cause(name="process_down", kind=INFRASTRUCTURE, fix="`stagemesh logs NAME` says why it ends"),
        Cause(
            name="queue_flood",
            kind=INFRASTRUCTURE,
            fix="add an engine, lower gateway.guards.tenant, or let callers defer",
        ),
        Cause(name="replica_slow", kind=INFRASTRUCTURE, fix="look at that machine's load, or take the replica out"),
        Cause(
            name="device_hot",
            kind=INFRASTRUCTURE,
            fix="look at the device's cooling; it gets less work until it is cool",
        ),
        Cause(name="model_wrong", kind=MODEL, fix="look at the engine's log under the reason that is named"),
    )
}
