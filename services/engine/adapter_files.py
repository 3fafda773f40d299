"""Adapters on disk: found within configured folders only, read and checked before anything of the engine changes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from services.engine.adapters import TARGETS, parse_adapter
from services.engine.kernels.native.lora import LoraPart
from stagemesh.models.errors import ModelCorrupt, UnsupportedModel
from stagemesh.models.model_config import TransformerConfig
from stagemesh.runtime.errors import Exhausted, Forbidden, InvalidRequest, NotFound, Precondition
from stagemesh.runtime.kv_keys import netstrings

CONFIG_FILE, WEIGHTS_FILE = "adapter_config.json", "adapter_model.safetensors"
MAX_CONFIG_BYTES = 256 * 1024
LANES = 16
"""Ranks lie in memory in groups of so many."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


@dataclass(frozen=True, kw_only=True)
class AdapterFile:
    """An adapter as it was read."""

    parts: tuple[LoraPart, ...]
    revision: str
    """SHA-256 of its files."""

    @property
    def rank(self) -> int:
        return max(len(part.a) for part in self.parts)

    @property
    def targets(self) -> tuple[str, ...]:
        """PEFT's names."""
        return tuple(name for name in TARGETS if TARGETS[name] in {part.target for part in self.parts})

    @property
    def num_bytes(self) -> int:
        """What the kernels hold of it."""
        return sum(4 * (-(-len(part.a) // LANES) * LANES) * (part.a.shape[1] + part.b.shape[0]) for part in self.parts)


def check_name(name: str) -> None:
    """Raises InvalidRequest."""
    if not NAME.fullmatch(name):
        raise InvalidRequest(
            "INVALID_ADAPTER_NAME",
            f"{name[:80]!r} cannot name an adapter: use 1 to 63 letters, digits, '.', '_', '-'",
            field="name",
        )


def locate(path: str, folders: Sequence[str]) -> Path:
    """The folder that `path` means, with all links resolved.

    Raises InvalidRequest for a malformed path, Forbidden for one outside of `folders`, NotFound where nothing is.
    """
    if not path or "\0" in path or len(path) > 4096:
        raise InvalidRequest("INVALID_ADAPTER_PATH", "give the path of a folder in PEFT's layout", field="path")
    roots = [Path(folder).resolve() for folder in folders]
    inside: list[Path] = []
    for root in roots:
        found = (root / path).resolve()  # an absolute path stands for itself
        if found.is_relative_to(root):
            inside.append(found)
    if not inside:
        raise Forbidden(
            "ADAPTER_PATH_FORBIDDEN",
            "adapters are loaded from the folders in engine.adapters.folders only",
            field="path",
        )
    for found in inside:
        if found.is_dir():
            return found
    raise NotFound(
        "ADAPTER_NOT_FOUND", f"there is no adapter folder {path[:200]!r} on the engine's machine", field="path"
    )


def read_adapter(folder: Path, model: TransformerConfig, model_revision: str, max_bytes: int) -> AdapterFile:
    """Read and check an adapter for `model`; blocks while it reads.

    Raises NotFound, Exhausted (too large) or Precondition, which say why it cannot be used.
    """
    config = _read(folder / CONFIG_FILE, MAX_CONFIG_BYTES)
    weights = _read(folder / WEIGHTS_FILE, max_bytes)
    try:
        parts = parse_adapter(config, weights, model, model_revision, folder.name)
    except ModelCorrupt as error:
        raise Precondition("ADAPTER_CORRUPT", str(error), field="path") from None
    except UnsupportedModel as error:
        raise Precondition("ADAPTER_UNSUPPORTED", str(error), field="path") from None
    return AdapterFile(parts=parts, revision=hashlib.sha256(netstrings(config, weights)).hexdigest())


def _read(path: Path, max_bytes: int) -> bytes:
    if not path.is_file():
        hint = "; only safetensors are read" if path.with_suffix(".bin").is_file() else ""
        raise NotFound("ADAPTER_NOT_FOUND", f"{path.parent.name} holds no {path.name}{hint}", field="path")
    try:
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
    except OSError as error:
        raise Precondition("ADAPTER_CORRUPT", f"{path.name} cannot be read: {error.strerror}", field="path") from None
    if len(content) > max_bytes:
        raise Exhausted("ADAPTER_TOO_LARGE", f"{path.name} has more than {max_bytes:,} bytes", field="path")
    return content
