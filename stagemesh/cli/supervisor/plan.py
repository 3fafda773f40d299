"""From the settings to the list of processes, each with its command, environment and health check."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import yaml

from stagemesh.cli.supervisor.mesh_settings import MeshSettings, reachable
from stagemesh.cli.supervisor.probe import AllProbes, GrpcProbe, HttpProbe
from stagemesh.cli.supervisor.servers import Servers, needed_servers
from stagemesh.cli.supervisor.spec import Phase, ProcessSpec
from stagemesh.runtime.mesh_config import Addresses, MeshConfig

HEALTH_NAMES = {
    **{
        name: f"stagemesh.api.{name}.v1.{name.capitalize()}Service"
        for name in ("gateway", "tokenizer", "engine", "cache", "validator", "corrector")
    },
    "differ": "stagemesh.differ",
    "worker": "stagemesh.worker",
}
"""What `grpc.health.v1` is asked for, by service."""

CANDIDATE = "engine-candidate"


@dataclass(frozen=True, kw_only=True)
class Instance:
    """One process of a service, before it has an address."""

    name: str
    service: str
    model: str = ""
    """Engines only."""
    settings: Mapping[str, bool | int | float | str] = field(default_factory=dict)
    """Keys of the service's section that differ for this process."""


def instances(mesh: MeshConfig) -> list[Instance]:
    """The processes of the internal services, in the order in which they are shown."""
    models = [model for model, count in mesh.serve.items() for _ in range(count)]
    engines = [Instance(name=f"engine-{index}", service="engine", model=model) for index, model in enumerate(models, 1)]
    shadow: list[Instance] = []
    if mesh.shadow.candidate:
        candidate = Instance(
            name=CANDIDATE,
            service="engine",
            model=mesh.shadow.candidate,
            settings=mesh.shadow.candidate_settings,
        )
        shadow = [candidate, Instance(name="differ", service="differ")]
    plain = [Instance(name=name, service=name) for name in ("cache", "validator", "corrector", "worker")]
    return [Instance(name="tokenizer", service="tokenizer"), *engines, *plain, *shadow]


def port_names(mesh: MeshConfig) -> list[str]:
    """Everything that needs an internal port."""
    return [*needed_servers(mesh), *(instance.name for instance in instances(mesh))]


def plan(settings: MeshSettings, servers: Servers, ports: Mapping[str, int], token: str) -> list[ProcessSpec]:
    """All processes of the mesh, those of its servers included."""
    mesh = settings.mesh
    shared = _shared_environment(settings, servers, ports, token)
    return [
        *servers.specs,
        *(
            _service(instance, ports[instance.name], {**shared, **_redis(servers, instance.service)})
            for instance in instances(mesh)
        ),
        _gateway(settings, {**shared, **_redis(servers, "gateway")}),
    ]


def _service(instance: Instance, port: int, shared: Mapping[str, str]) -> ProcessSpec:
    address = f"127.0.0.1:{port}"
    return ProcessSpec(
        name=instance.name,
        command=service_command(instance.service),
        environment={**shared, **dict(_own_environment(instance, address))},
        address=address,
        probe=GrpcProbe(address, HEALTH_NAMES[instance.service]),
    )


def _gateway(settings: MeshSettings, shared: Mapping[str, str]) -> ProcessSpec:
    grpc_address, http_address = reachable(settings.grpc_address), reachable(settings.http_address)
    return ProcessSpec(
        name="gateway",
        command=service_command("gateway"),
        environment={
            **shared,
            "STAGEMESH_INSTANCE": "gateway",
            "STAGEMESH_GATEWAY__LISTEN": yaml_scalar(settings.grpc_address),
            "STAGEMESH_GATEWAY__HTTP_LISTEN": yaml_scalar(settings.http_address),
        },
        address=settings.grpc_address,
        probe=AllProbes((GrpcProbe(grpc_address, HEALTH_NAMES["gateway"]), HttpProbe(http_address))),
        phase=Phase.GATEWAY,
    )


def service_command(service: str) -> tuple[str, ...]:
    """`-P` keeps the current folder off the import path, where a checkout would shadow what is installed."""
    return (sys.executable, "-P", "-m", f"services.{service}")


def _own_environment(instance: Instance, address: str) -> Iterator[tuple[str, str]]:
    section = instance.service.upper()
    yield "STAGEMESH_INSTANCE", instance.name
    yield f"STAGEMESH_{section}__LISTEN", yaml_scalar(address)
    if instance.model:
        yield f"STAGEMESH_{section}__MODEL", yaml_scalar(instance.model)
    for key, value in instance.settings.items():
        yield f"STAGEMESH_{section}__{key.upper()}", json.dumps(value)


def _redis(servers: Servers, service: str) -> dict[str, str]:
    """Each service comes to the embedded servers as a user of its own."""
    ledger_url, kv_url = servers.urls_of(service)
    return {"STAGEMESH_LEDGER_URL": yaml_scalar(ledger_url), "STAGEMESH_KV_URL": yaml_scalar(kv_url)}


def _shared_environment(
    settings: MeshSettings, servers: Servers, ports: Mapping[str, int], token: str
) -> dict[str, str]:
    """What all processes of the mesh are told."""
    by_service: dict[str, list[str]] = {}
    for instance in instances(settings.mesh):
        key = "candidate_engine" if instance.name == CANDIDATE else instance.service
        by_service.setdefault(key, []).append(f"127.0.0.1:{ports[instance.name]}")
    addressed = [key for key in Addresses.model_fields if key in by_service]
    return {
        **({"STAGEMESH_CONFIG": str(settings.config_path)} if settings.config_path else {}),
        **{f"STAGEMESH_ADDRESSES__{key.upper()}": json.dumps(by_service[key]) for key in addressed},
        "STAGEMESH_ADDRESSES__GATEWAY": yaml_scalar(reachable(settings.grpc_address)),
        "STAGEMESH_MESH_TOKEN": token,
        "STAGEMESH_KAFKA_BOOTSTRAP": yaml_scalar(servers.kafka_bootstrap),
        "STAGEMESH_STATE_DIR": yaml_scalar(str(settings.state.path)),
        "STAGEMESH_SERVE": json.dumps(dict(settings.mesh.serve)),
        "GRPC_ENABLE_FORK_SUPPORT": "0",
        "PYTHONUNBUFFERED": "1",
    }


def yaml_scalar(text: str) -> str:
    """`text` such that the configuration, which reads the environment as YAML, sees this very string."""
    try:
        plain = yaml.safe_load(text) == text
    except yaml.YAMLError:
        plain = False
    return text if plain else json.dumps(text)
