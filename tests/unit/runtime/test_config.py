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


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("log_levle: INFO\n", r"yaml:1: log_levle: is not a known key; do you mean log_level\?"),
        ("\ngatewy: {}\n", r"yaml:2: gatewy: is not a known key; do you mean gateway\?"),
        ("shadow: {candidat: x}\n", r"shadow\.candidat: is not a known key; do you mean candidate\?"),
        ("models: {m: {source: x, revison: y}}\n", r"models\.m\.revison: is not a known key; do you mean revision\?"),
        ("models: {m: {}}\n", r"models\.m\.source: is missing"),
        ("xyz: 1\n", r"xyz: is not a known key$"),
        ("drain_grace_s: long\n", r"drain_grace_s: should be a valid number.* \(got 'long'\)"),
    ],
)
def test_a_wrong_key_is_told_in_words_of_the_file(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        read_source(write(tmp_path, text), {}).shared(MeshConfig)


def test_an_unknown_key_in_the_environment_gets_the_same_sentence() -> None:
    source = read_source(environ={"STAGEMESH_ENGINE__MAX_RUNING": "4"})
    sentence = r"STAGEMESH_ENGINE__MAX_RUNING: engine\.max_runing: is not a known key; do you mean max_running\?"
    with pytest.raises(ConfigError, match=sentence):
        source.section("engine", Engine)


def test_a_shorthand_at_the_top_reaches_its_section(tmp_path: Path) -> None:
    path = write(tmp_path, "prefill_chunk_size: 64\n")
    assert read_source(path, {}).section("engine", Engine).prefill_chunk_size == 64


def test_an_alias_to_an_unknown_model_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "aliases: {gpt: nowhere}\n")
    with pytest.raises(ConfigError, match=r"stagemesh\.yaml:1: aliases\.gpt: names the model 'nowhere'"):
        read_source(path, {}).shared(MeshConfig)


def test_engines_that_leave_out_the_default_model_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "models: {m: {source: x}}\nserve: {m: 1}\n")
    with pytest.raises(ConfigError, match=r"stagemesh\.yaml:2: serve: leaves out the default model"):
        read_source(path, {}).shared(MeshConfig)
    path = write(tmp_path, "models: {m: {source: x}}\nserve: {m: 1}\ndefault_model: m\n")
    assert read_source(path, {}).shared(MeshConfig).serve == {"m": 1}


def test_one_redis_url_serves_both_uses() -> None:
    config = read_source(environ={"STAGEMESH_REDIS_URL": "redis://h:1", "STAGEMESH_KV_URL": "redis://h:2"}).shared(
        MeshConfig
    )
    assert (config.ledger_url, config.kv_url) == ("redis://h:1", "redis://h:2")


def test_a_file_that_is_no_yaml_is_told_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^\S+stagemesh\.yaml:2: is not valid YAML: [^\n]+$"):
        read_source(write(tmp_path, "a: 1\nb: [}\n"), {})


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: there is no such file"):
        read_source(tmp_path / "nowhere.yaml", {})


@pytest.mark.parametrize("text", ["- a\n", "a: [\n", "\x00"])
def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError):
        read_source(write(tmp_path, text), {})


@pytest.mark.parametrize("name", ["78755330", "787e53", "0x1f", "1_000", "true", "2026-11-30", "no"])
def test_text_in_the_environment_that_looks_like_something_else_stays_text(name: str) -> None:
    config = read_source(environ={"STAGEMESH_KAFKA_TOPIC_PREFIX": name}).shared(MeshConfig)
    assert config.kafka_topic_prefix == name


def test_a_mapping_in_the_environment_keeps_its_types() -> None:
    config = read_source(environ={"STAGEMESH_SERVE": f"{{{DEFAULT_MODEL}: 2}}"}).shared(MeshConfig)
    assert config.serve == {DEFAULT_MODEL: 2}
