"""What is installed: models, embedded servers."""

from __future__ import annotations

import subprocess
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from stagemesh.cli.doctor.finding import Finding, fail, ok
from stagemesh.cli.supervisor.servers import KAFKA, VALKEY, VALKEY_KV, needed_servers
from stagemesh.models.store import list_models
from stagemesh.models.verify import verify
from stagemesh.runtime.config import ConfigError
from stagemesh.runtime.mesh_config import MeshConfig


def check_models(mesh: MeshConfig) -> list[Finding]:
    """Each model that the mesh serves is here and intact."""
    needed = {*mesh.serve, *([mesh.shadow.candidate] if mesh.shadow.candidate else [])}
    return [_check_model(mesh, entry.name) for entry in list_models(mesh) if entry.name in needed]


def _check_model(mesh: MeshConfig, name: str) -> Finding:
    title = f"model {name}"
    try:
        result = verify(mesh, name)
    except ConfigError as error:
        return fail(title, str(error), f"stagemesh model pull {name}")
    wrong = [str(check.path) for check in result.checks if not check.ok]
    if wrong:
        return fail(title, f"damaged: {', '.join(wrong)}", f"delete it and run `stagemesh model pull {name}`")
    return ok(title, f"verified, {result.checks[0].path}")


def check_embedded(mesh: MeshConfig) -> list[Finding]:
    """The embedded servers that this configuration needs can be started."""
    needed = needed_servers(mesh)
    return [
        *([_check_valkey()] if {VALKEY, VALKEY_KV} & {*needed} else []),
        *([_check_kafka()] if KAFKA in needed else []),
    ]


def _check_valkey() -> Finding:
    from stagemesh.embedded.valkey import server_binary

    fix = "make setup, or set STAGEMESH_REDIS_URL"
    try:
        binary = server_binary()
    except SystemExit:
        return fail("embedded Redis", "no Valkey server is installed", fix)
    try:
        said = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return fail("embedded Redis", f"{binary} does not run: {error}", fix)
    return ok("embedded Redis", " ".join(said.stdout.split()[:3]))


def _check_kafka() -> Finding:
    if find_spec("confluent_kafka") is None:
        return fail(
            "embedded Kafka", "confluent-kafka is not installed", "make setup, or set STAGEMESH_KAFKA_BOOTSTRAP"
        )
    return ok("embedded Kafka", f"confluent-kafka {version('confluent-kafka')}")


def check_state_writable(path: Path) -> Finding:
    """Files can be made in the state folder, or in the nearest folder above it that exists."""
    folder = next(each for each in (path, *path.parents) if each.exists())
    try:
        with tempfile.TemporaryFile(dir=folder):
            return ok("state folder", str(path))
    except OSError as error:
        return fail("state folder", f"{path}: {error.strerror}", "choose another one with --state or $STAGEMESH_STATE")
