from pathlib import Path

import pytest
from pydantic import Field

from stagemesh.runtime.config import ConfigError, Section, read_source
from stagemesh.runtime.mesh_config import DEFAULT_MODEL, MeshConfig


class Engine(Section):
    max_running: int = Field(default=16, ge=1)
    prefill_chunk_size: int = 512


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "stagemesh.yaml"
    path.write_text(text)
    return path


def test_defaults_need_no_file() -> None:
    config = read_source(environ={}).shared(MeshConfig)
    assert config.serve == {DEFAULT_MODEL: 1}
    assert config.resolve_model("") == DEFAULT_MODEL


def test_environment_overrides_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "engine:\n  max_running: 4\n")
    source = read_source(path, {"STAGEMESH_ENGINE__MAX_RUNNING": "8"})
    assert source.section("engine", Engine).max_running == 8


def test_a_bad_value_names_its_key_and_line(tmp_path: Path) -> None:
    path = write(tmp_path, "log_level: INFO\nengine:\n  max_running: 0\n")
    with pytest.raises(ConfigError, match=r"stagemesh\.yaml:3: engine\.max_running: .*greater than or equal to 1"):
        read_source(path, {}).section("engine", Engine)


def test_a_bad_value_in_the_environment_names_the_variable() -> None:
    with pytest.raises(ConfigError, match=r"STAGEMESH_ENGINE__MAX_RUNNING: engine\.max_running"):
        read_source(environ={"STAGEMESH_ENGINE__MAX_RUNNING": "many"}).section("engine", Engine)


def test_an_unknown_key_is_refused_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, "log_levle: INFO\n")
    with pytest.raises(ConfigError, match=r"stagemesh\.yaml:1: log_levle"):
        read_source(path, {}).shared(MeshConfig)


def test_a_shorthand_at_the_top_reaches_its_section(tmp_path: Path) -> None:
    path = write(tmp_path, "prefill_chunk_size: 64\n")
    assert read_source(path, {}).section("engine", Engine).prefill_chunk_size == 64


def test_an_alias_to_an_unknown_model_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "aliases: {gpt: nowhere}\n")
    with pytest.raises(ConfigError, match=r"aliases\.gpt names the model 'nowhere'"):
        read_source(path, {}).shared(MeshConfig)


def test_one_redis_url_serves_both_uses() -> None:
    config = read_source(environ={"STAGEMESH_REDIS_URL": "redis://h:1", "STAGEMESH_KV_URL": "redis://h:2"}).shared(
        MeshConfig
    )
    assert (config.ledger_url, config.kv_url) == ("redis://h:1", "redis://h:2")


@pytest.mark.parametrize("text", ["- a\n", "a: [\n", "\x00"])
def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError):
        read_source(write(tmp_path, text), {})
