"""The engine on native kernels needs no PyTorch, and says what to install where nothing can compute."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from services.engine.kernels.native.build import supported_levels
from stagemesh.models.store import ModelFiles

RUN = """
import json
import sys
from pathlib import Path

sys.modules["torch"] = None  # importing it fails from here on

from services.engine import service  # the whole of it
from services.engine.kernels.native import build
from services.engine.page_table import Owner
from services.engine.config import EngineConfig
from services.engine.engine import Engine, load_model
from services.engine.sampling_params import SamplingParams
from services.engine.sequence import Sequence
from stagemesh.models.store import ModelFiles
from stagemesh.runtime.config import ConfigError

path, cache_dir, backend, shipped = sys.argv[1:]
if not shipped:
    build.PREBUILT_FOLDER = Path(cache_dir)  # as in a checkout that was installed without a compiler
files = ModelFiles(name="m", source="", kind="gguf", path=Path(path), cache_dir=Path(cache_dir))
config = EngineConfig(backend=backend, threads=1, kv_pool_tokens=256)
try:
    model = load_model(files, config)
except ConfigError as error:
    sys.exit(str(error))
core = Engine(model, config).core
text = "The capital of France is"
prompt = model.tokenizer.build().encode(text).ids
params = SamplingParams(temperature=0.0, ignore_eos=True)
core.add(Sequence(sequence_id="a", owner=Owner("", b""), tokens=list(prompt), num_prompt=len(prompt), num_delivered=0,
                  params=params, max_total_tokens=len(prompt) + 4))
tokens = []
while core.has_work():
    tokens += [token for update in core.step().updates for token in update.tokens]
print(json.dumps([model.backend, model.tokenizer.build().decode(tokens)]))
"""


def run_without_torch(
    files: ModelFiles, backend: str, *, shipped: str = "shipped", **environment: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", RUN, str(files.path), str(files.cache_dir), backend, shipped]
    root = {"PYTHONPATH": str(Path(__file__).parents[3])}
    return subprocess.run(
        command,
        env={"PATH": "/usr/bin:/bin", **root, **environment},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.skipif(not supported_levels(), reason="the native kernels need AVX2")
@pytest.mark.parametrize("backend", ["auto", "native"])
def test_the_engine_answers_where_torch_cannot_be_imported(default_model_files: ModelFiles, backend: str) -> None:
    result = run_without_torch(default_model_files, backend)
    assert result.returncode == 0, result.stderr
    name, text = json.loads(result.stdout.splitlines()[-1])
    assert name.startswith("native-")
    assert "Paris" in text


def test_with_neither_a_compiler_nor_torch_the_sentence_says_what_to_install(
    tmp_path: Path, default_model_files: ModelFiles
) -> None:
    files = ModelFiles(name="m", source="", kind="gguf", path=default_model_files.path, cache_dir=tmp_path)
    result = run_without_torch(files, "auto", shipped="", PATH=str(tmp_path))
    assert result.returncode == 1
    assert "pip install 'stagemesh[torch]'" in result.stderr.splitlines()[-1]
    if supported_levels():
        assert "C++ compiler" in result.stderr


def test_the_torch_backend_is_refused_where_torch_is_not_installed(default_model_files: ModelFiles) -> None:
    result = run_without_torch(default_model_files, "torch")
    assert result.returncode == 1
    assert "engine.backend" in result.stderr
    assert "pip install 'stagemesh[torch]'" in result.stderr
