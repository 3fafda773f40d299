"""Where models lie on this machine: from a name in the configuration to files."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from stagemesh.models.errors import ModelCorrupt, ModelMissing
from stagemesh.runtime.mesh_config import MeshConfig, ModelConfig

BUILTIN_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
BUILTIN_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
MANIFEST = "stagemesh-pull.json"
"""Written last into a pulled folder; a folder without it is an interrupted pull."""

Kind = Literal["gguf", "hf"]


@dataclass(frozen=True, kw_only=True)
class ModelFiles:
    """One model's files, present on this machine."""

    name: str
    source: str
    kind: Kind
    path: Path
    """The `.gguf` file, or the folder in Hugging Face layout."""
    cache_dir: Path
    """The model folder of the configuration, where hashes are remembered."""
    pinned_sha256: str = ""
    """SHA-256 of the weights where it is known beforehand."""
    hub_commit: str = ""
    """Commit of the hub repository, for `hf:` sources."""

    def weight_paths(self) -> list[Path]:
        """The files that hold the weights, sorted by name."""
        return [self.path] if self.kind == "gguf" else sorted(self.path.glob("*.safetensors"))

    def size_bytes(self) -> int:
        paths = [self.path] if self.kind == "gguf" else [path for path in self.path.iterdir() if path.is_file()]
        return sum(path.stat().st_size for path in paths)


@dataclass(frozen=True, kw_only=True)
class ModelEntry:
    """One line of `stagemesh model list`."""

    name: str
    source: str
    aliases: tuple[str, ...]
    is_default: bool
    present: bool
    path: Path | None
    """None while the model is not on this machine."""
    size_bytes: int


def model_dir(config: MeshConfig) -> Path:
    """The folder of pulled models; it need not exist yet."""
    if config.model_dir is not None:
        return config.model_dir.expanduser()
    cache = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(cache) if cache else Path.home() / ".cache") / "stagemesh" / "models"


def model_config(config: MeshConfig, name: str) -> tuple[str, ModelConfig]:
    """The canonical name and the entry of a name or alias. Raises ModelMissing for an unknown one."""
    resolved = config.resolve_model(name)
    if resolved is None:
        raise ModelMissing(f"no model named {name!r} is configured; known are {', '.join(sorted(config.models))}")
    return resolved, config.models[resolved]


def pulled_path(config: MeshConfig, source: str, revision: str | None) -> Path:
    """Where a pull of `source` puts its file (`builtin`) or folder (`hf:`)."""
    if source == "builtin":
        return model_dir(config) / "builtin" / BUILTIN_FILE
    folder = source.removeprefix("hf:").replace("/", "--")
    return model_dir(config) / "hub" / folder / (revision or "main").replace("/", "--")


def locate(config: MeshConfig, name: str) -> ModelFiles:
    """The files of the model behind `name` (a name, an alias, or empty for the default).

    Raises ModelMissing when it is unknown or not on this machine.
    """
    name, entry = model_config(config, name)
    source, cache_dir = entry.source, model_dir(config)
    if source == "builtin":
        path = pulled_path(config, source, None)
        if not path.is_file():
            raise _not_pulled(name)
        return ModelFiles(
            name=name, source=source, kind="gguf", path=path, cache_dir=cache_dir, pinned_sha256=BUILTIN_SHA256
        )
    if source.startswith("hf:"):
        folder = pulled_path(config, source, entry.revision)
        commit = read_manifest(folder, name).commit
        return ModelFiles(name=name, source=source, kind="hf", path=folder, cache_dir=cache_dir, hub_commit=commit)
    path = Path(source).expanduser().resolve()
    return ModelFiles(name=name, source=source, kind=_local_kind(name, path), path=path, cache_dir=cache_dir)


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a pull from the hub wrote down."""

    commit: str
    sha256: dict[str, str]
    """By file name."""


def read_manifest(folder: Path, name: str) -> Manifest:
    """Raises ModelMissing when the pull has not been completed, ModelCorrupt when its record is damaged."""
    try:
        data = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        return Manifest(commit=str(data["commit"]), sha256={str(k): str(v) for k, v in data["sha256"].items()})
    except FileNotFoundError:
        raise _not_pulled(name) from None
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise ModelCorrupt(f"{folder / MANIFEST} is damaged ({error}); delete {folder} and pull again") from None


def list_models(config: MeshConfig) -> list[ModelEntry]:
    """Every configured model, the default one first, whether present or not."""
    names = sorted(config.models, key=lambda name: (name != config.default_model, name))
    return [_entry(config, name) for name in names]


def _entry(config: MeshConfig, name: str) -> ModelEntry:
    try:
        files: ModelFiles | None = locate(config, name)
    except (ModelMissing, ModelCorrupt):
        files = None
    return ModelEntry(
        name=name,
        source=config.models[name].source,
        aliases=tuple(sorted(alias for alias, target in config.aliases.items() if target == name)),
        is_default=name == config.default_model,
        present=files is not None,
        path=files.path if files else None,
        size_bytes=files.size_bytes() if files else 0,
    )


def _not_pulled(name: str) -> ModelMissing:
    return ModelMissing(f"the model {name!r} is not on this machine yet; run `stagemesh model pull {name}`")


def _local_kind(name: str, path: Path) -> Kind:
    if path.suffix == ".gguf":
        if not path.is_file():
            raise ModelMissing(f"models.{name}.source: there is no file {path}")
        return "gguf"
    if not path.is_dir():
        raise ModelMissing(
            f"models.{name}.source: {path} is neither a .gguf file nor a folder; "
            "use `builtin`, `hf:ORG/NAME`, a folder in Hugging Face layout or a .gguf file"
        )
    missing = [file for file in ("config.json", "tokenizer.json") if not (path / file).is_file()]
    if not any(path.glob("*.safetensors")):
        missing.append("*.safetensors")
    if missing:
        raise ModelMissing(f"models.{name}.source: the folder {path} lacks {', '.join(missing)}")
    return "hf"
