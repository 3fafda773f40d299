"""All of the configuration that `stagemesh up` acts on, read and checked before anything starts."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from stagemesh.cli.supervisor.options import UpOptions
from stagemesh.cli.supervisor.ports import split_address
from stagemesh.cli.supervisor.settings import SupervisorConfig
from stagemesh.cli.supervisor.state_dir import StateDir, locate_state
from stagemesh.runtime.config import ConfigError, Source, read_source
from stagemesh.runtime.mesh_config import MeshConfig

SERVICES = ("tokenizer", "engine", "cache", "validator", "corrector", "differ", "worker", "gateway")


class _Public(BaseModel):
    """The two keys of the gateway's section that the supervisor needs."""

    model_config = ConfigDict(extra="ignore")

    listen: str = ""
    http_listen: str = "127.0.0.1:8080"


@dataclass(frozen=True, kw_only=True)
class MeshSettings:
    config_path: Path | None
    mesh: MeshConfig
    supervisor: SupervisorConfig
    state: StateDir
    grpc_address: str
    http_address: str
    kv_budget_mb: int = 0
    """Of stored KV pages, `cache.kv.total_mb`."""


def read_settings(options: UpOptions) -> MeshSettings:
    """The settings behind `options`. Raises ConfigError, which names the key and where it was set."""
    path = _config_path(options.config)
    source = read_source(path)
    mesh = source.shared(MeshConfig)
    _check_sections(source)
    _check_candidate(source, mesh)
    if options.engines is not None:
        mesh = mesh.model_copy(update={"serve": {**mesh.serve, mesh.default_model: options.engines}})
    public = source.section("gateway", _Public)
    return MeshSettings(
        config_path=path,
        mesh=mesh,
        supervisor=source.section("supervisor", SupervisorConfig),
        state=locate_state(options.state, mesh.state_dir),
        grpc_address=_with_port(public.listen or mesh.addresses.gateway, options.grpc_port, "gateway.listen"),
        http_address=_with_port(public.http_listen, options.http_port, "gateway.http_listen"),
        kv_budget_mb=source.section("cache", _section_model("cache")).kv.total_mb,
    )


def _config_path(given: Path | None) -> Path | None:
    """Absolute, since the services read it from a folder of their own choice."""
    named = given or (Path(os.environ["STAGEMESH_CONFIG"]) if os.environ.get("STAGEMESH_CONFIG") else None)
    return named.expanduser().absolute() if named else None


def _check_sections(source: Source) -> None:
    """Read each service's section with the service's own model: a bad key is told before anything starts."""
    for name in SERVICES:
        source.section(name, _section_model(name))


def _section_model(name: str) -> Any:
    """The configuration model of a service."""
    return getattr(importlib.import_module(f"services.{name}.config"), f"{name.capitalize()}Config")


def _check_candidate(source: Source, mesh: MeshConfig) -> None:
    """The candidate's settings are keys of the `engine` section."""
    source.check(("shadow", "candidate_settings"), mesh.shadow.candidate_settings, _section_model("engine"))


def _with_port(address: str, port: int | None, key: str) -> str:
    try:
        host, configured = split_address(address)
    except ValueError as error:
        raise ConfigError(f"{key}: {error}") from None
    return f"[{host}]:{port or configured}" if ":" in host else f"{host}:{port or configured}"


def reachable(address: str) -> str:
    """The address under which this machine reaches something that listens on `address`."""
    host, port = split_address(address)
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
