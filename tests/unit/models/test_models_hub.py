"""Pulling from a hub that a small server plays, in a process of its own: the client reads the address at import."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from models_support import Reply, http_server, send, write_hf

from stagemesh.models.errors import ModelMissing
from stagemesh.models.model_config import load_model_config
from stagemesh.models.store import locate
from stagemesh.models.verify import verify
from stagemesh.runtime.mesh_config import MeshConfig, ModelConfig

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SCRIPT = """
import sys
from stagemesh.models.errors import PullError
from stagemesh.models.pull import pull
from stagemesh.runtime.mesh_config import MeshConfig, ModelConfig
config = MeshConfig(models={"mine": ModelConfig(source="hf:org/name", revision="v1")}, model_dir=sys.argv[1])
try:
    pull(config, "mine")
except PullError as error:
    sys.exit(f"PullError: {error}")
"""


def hub_replies(files: dict[str, bytes]) -> dict[str, Reply]:
    siblings = [{"rfilename": name} for name in files]
    card = json.dumps({"id": "org/name", "modelId": "org/name", "sha": COMMIT, "siblings": siblings}).encode()
    tree = json.dumps(
        [{"type": "file", "path": name, "size": len(data), "oid": "0" * 40} for name, data in files.items()]
    ).encode()
    replies: dict[str, Reply] = {
        f"/api/models/org/name/revision/{revision}": lambda handler: send(handler, card, "application/json")
        for revision in ("v1", COMMIT)
    }
    replies[f"/api/models/org/name/tree/{COMMIT}"] = lambda handler: send(handler, tree, "application/json")
    for name, data in files.items():
        replies[f"/org/name/resolve/{COMMIT}/{name}"] = file_reply(data)
    return replies


def file_reply(data: bytes) -> Reply:
    tag = f'"{hashlib.sha256(data).hexdigest()}"'
    return lambda handler: send(handler, data, "application/octet-stream", ETag=tag, X_Repo_Commit=COMMIT)


def run_pull(url: str, model_dir: Path, home: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"HF_ENDPOINT": url, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1"}
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, str(model_dir)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, bytes]:
    folder = write_hf(tmp_path / "original")
    return {path.name: path.read_bytes() for path in folder.iterdir()} | {"pytorch_model.bin": b"not wanted"}


def test_a_repository_is_pulled_at_its_commit_and_can_be_verified(tmp_path: Path, files: dict[str, bytes]) -> None:
    config = MeshConfig(
        models={"mine": ModelConfig(source="hf:org/name", revision="v1")}, model_dir=tmp_path / "models"
    )
    with http_server(hub_replies(files)) as (url, asked):
        result = run_pull(url, tmp_path / "models", tmp_path / "home")
        assert result.returncode == 0, result.stderr
        num_asked = len(asked)
        assert run_pull(url, tmp_path / "models", tmp_path / "home").returncode == 0
        assert len(asked) == num_asked, "what is here is not asked for again"
    found = locate(config, "mine")
    assert found.hub_commit == COMMIT
    assert not (found.path / "pytorch_model.bin").exists()
    assert load_model_config(found).architecture == "qwen3"
    assert verify(config, "mine").ok
    (found.path / "config.json").write_text("{}")
    assert [check.path.name for check in verify(config, "mine").checks if not check.ok] == ["config.json"]


def test_a_repository_without_what_is_needed_is_refused(tmp_path: Path, files: dict[str, bytes]) -> None:
    del files["tokenizer.json"]
    with http_server(hub_replies(files)) as (url, _):
        result = run_pull(url, tmp_path / "models", tmp_path / "home")
    assert "PullError: hf:org/name lacks tokenizer.json" in result.stderr
    config = MeshConfig(
        models={"mine": ModelConfig(source="hf:org/name", revision="v1")}, model_dir=tmp_path / "models"
    )
    with pytest.raises(ModelMissing):
        locate(config, "mine")


def test_a_hub_that_is_away_is_said(tmp_path: Path) -> None:
    result = run_pull("http://127.0.0.1:1", tmp_path / "models", tmp_path / "home")
    assert "PullError: the hub could not be reached for hf:org/name" in result.stderr


def test_a_repository_that_is_not_there_is_said(tmp_path: Path) -> None:
    with http_server({"/api/models/org/name/revision/v1": send_not_found}) as (url, _):
        result = run_pull(url, tmp_path / "models", tmp_path / "home")
    assert "PullError: hf:org/name at v1 is not on the hub" in result.stderr


def send_not_found(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(404)
    handler.send_header("X-Error-Code", "RepoNotFound")
    handler.send_header("Content-Length", "0")
    handler.end_headers()
