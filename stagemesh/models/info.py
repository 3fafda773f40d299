"""`stagemesh model info`: what stands in a model's files."""

from __future__ import annotations

import json
import math
import struct
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from stagemesh.models.errors import ModelCorrupt
from stagemesh.models.gguf_file import open_gguf
from stagemesh.models.model_config import TransformerConfig, load_model_config
from stagemesh.models.revision import revision
from stagemesh.models.store import ModelFiles, locate
from stagemesh.models.tokenizer_file import load_tokenizer
from stagemesh.runtime.mesh_config import MeshConfig

MAX_HEADER_BYTES = 100 * 1024 * 1024
BUILTIN_LICENSE = "apache-2.0"


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    files: ModelFiles
    config: TransformerConfig
    revision: str
    tokenizer_hash: str
    template_hash: str
    has_chat_template: bool
    num_parameters: int
    tensor_types: dict[str, int]
    """Number of tensors by stored type, e.g. `Q4_1`, `BF16`."""
    license: str
    """As the files state it; empty if they do not."""
    size_bytes: int


def info(config: MeshConfig, name: str = "") -> ModelInfo:
    """Read everything worth knowing about a model. Raises ModelMissing, ModelCorrupt or UnsupportedModel."""
    files = locate(config, name)
    shapes, license_ = _gguf_tensors(files) if files.kind == "gguf" else (_hf_tensors(files), "")
    tokenizer = load_tokenizer(files)
    return ModelInfo(
        files=files,
        config=load_model_config(files),
        revision=revision(files),
        tokenizer_hash=tokenizer.tokenizer_hash,
        template_hash=tokenizer.template_hash,
        has_chat_template=bool(tokenizer.chat_template),
        num_parameters=sum(math.prod(shape) for _, shape in shapes),
        tensor_types=dict(Counter(kind for kind, _ in shapes).most_common()),
        license=BUILTIN_LICENSE if files.source == "builtin" else license_,
        size_bytes=files.size_bytes(),
    )


Shapes = list[tuple[str, tuple[int, ...]]]
"""Stored type and shape of each tensor."""


def _gguf_tensors(files: ModelFiles) -> tuple[Shapes, str]:
    file = open_gguf(files.path)
    shapes = [(tensor.type, tensor.shape) for tensor in file.tensors.values()]
    return shapes, str(file.metadata.get("general.license", ""))


def _hf_tensors(files: ModelFiles) -> Shapes:
    return [row for path in files.weight_paths() for row in _safetensors_header(path)]


def _safetensors_header(path: Path) -> Iterable[tuple[str, tuple[int, ...]]]:
    """Types and shapes from the header, without a dependency on the library that loads the data."""
    try:
        with path.open("rb") as file:
            (num_bytes,) = struct.unpack("<Q", file.read(8))
            if num_bytes > MAX_HEADER_BYTES:
                raise ValueError(f"a header of {num_bytes} bytes")
            header = json.loads(file.read(num_bytes))
        return [
            (str(entry["dtype"]), tuple(int(size) for size in entry["shape"]))
            for tensor, entry in header.items()
            if tensor != "__metadata__"
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise ModelCorrupt(f"{path} is not a sound safetensors file: {error}") from None
