"""How a model's head is screened: in which directions its hidden states are large, found once and kept on disk.

They only decide how many logits a step has to compute; which token wins does not depend on them.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from services.engine.kernels.native.library import MAX_SKEW, SCREEN_LEAD, Batch, Decoder, Floats, Matrix
from services.engine.kernels.native.stages import Stages
from services.engine.weights.screen_text import TEXT
from stagemesh.models.model_config import TransformerConfig
from stagemesh.models.revision import revision
from stagemesh.models.store import ModelFiles
from stagemesh.models.tokenizer_file import load_tokenizer
from stagemesh.runtime.telemetry import get_logger

log = get_logger(__name__)

VERSION = 2
"""Of the text and of what is made of it."""
PAGE_TOKENS = 16
MAX_PASSAGE_TOKENS = 256
NUM_SKIPPED = 4
"""The first tokens of a passage have states unlike all others."""
NUM_SAMPLED_ROWS = 2048
"""Of the head, to learn how large its columns are."""
LEAST = 1e-3
"""No column counts for less than this part of the mean one."""


def screen_heads(decoder: Decoder, files: ModelFiles, config: TransformerConfig) -> None:
    """Have the heads of all weight sets screened. Seconds for a model not seen before, its pages must be unused."""
    if decoder.shape.hidden_size < 2 * SCREEN_LEAD:
        return
    path = files.cache_dir / "screens" / f"{revision(files)[:40]}-{VERSION}.npy"
    for weights in decoder.weights:
        head = decoder.head(weights)
        directions = _read(path, decoder.shape.hidden_size)
        if directions is None:
            tokens = load_tokenizer(files).build().encode(TEXT, add_special_tokens=False).ids
            states = hidden_states(decoder, tokens, config.vocab_size)
            if not len(states):  # the context is shorter than what is skipped
                return
            if not np.isfinite(states).all():  # each answer will say so; there is nothing to learn from it here
                log.error("the model computes values that are not finite", model=files.name)
                return
            directions = find_directions(states, head)
            _keep(path, directions)
        decoder.screen_head(weights, config.vocab_size, directions[:-1], directions[-1])


def hidden_states(decoder: Decoder, tokens: Sequence[int], vocab_size: int) -> Floats:
    """What the head is multiplied with after each of `tokens`, in passages that the pool has room for: [n, hidden]."""
    room = min(MAX_PASSAGE_TOKENS, decoder.num_positions, (decoder.shape.num_pages - 1) * PAGE_TOKENS)
    known = [token for token in tokens if token < vocab_size]
    passages = [known[start : start + room] for start in range(0, len(known), room)]
    return np.concatenate([_states_of(decoder, passage)[NUM_SKIPPED:] for passage in passages])


def _states_of(decoder: Decoder, tokens: Sequence[int]) -> Floats:
    num_tokens, num_pages = len(tokens), -(-len(tokens) // PAGE_TOKENS)
    batch = Batch(
        token_ids=np.array(tokens, dtype=np.int32),
        positions=np.arange(num_tokens, dtype=np.int32),
        sequences=np.zeros(num_tokens, dtype=np.int32),
        page_starts=np.zeros(1, dtype=np.int32),
        pages=np.arange(1, num_pages + 1, dtype=np.int32),
        sample_rows=np.zeros(1, dtype=np.int32),
    )
    stages = Stages(decoder)
    x = stages.embed(batch)
    for layer in range(decoder.shape.num_layers):
        x = stages.attend(layer, batch, stages.norm("attention", layer, x), x)
        x = stages.mlp(layer, batch, stages.norm("ffn", layer, x), x)
    for page in range(1, num_pages + 1):
        decoder.zero_page(page)
    return stages.norm("final", 0, x)


def find_directions(states: Floats, head: Matrix) -> Floats:
    """[SCREEN_LEAD + 1, hidden]: the directions in which `states` [n, hidden] are largest, and a scale for each column.

    The bound of a row is |its rest ∘ scale| · |state's rest / scale|: smallest where the scale is the root of how large
    the state's column is, by how large the head's is.
    """
    exact = states.astype(np.float64)
    basis = np.linalg.svd(exact, full_matrices=True)[2][:SCREEN_LEAD]  # [K, H]
    rows = np.linspace(0, head.rows - 1, min(NUM_SAMPLED_ROWS, head.rows)).astype(int)
    weights = np.stack([head.row(row) for row in rows]).astype(np.float64)
    states_size, weights_size = (_size(values - values @ basis.T @ basis) for values in (exact, weights))
    scale = np.sqrt(states_size / weights_size)
    return np.concatenate([basis, scale[np.newaxis]]).astype(np.float32)


def _size(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Of each column."""
    sizes: npt.NDArray[np.float64] = np.sqrt((values**2).mean(axis=0))
    return np.maximum(sizes, LEAST * sizes.mean() or 1.0)


def _read(path: Path, hidden_size: int) -> Floats | None:
    """What was kept, if it is there and sound."""
    try:
        found: Floats = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    if found.dtype != np.float32 or found.shape != (SCREEN_LEAD + 1, hidden_size) or not np.isfinite(found).all():
        return None
    basis, scale = found[:-1], found[-1]
    is_sound = float(np.abs(basis @ basis.T - np.eye(SCREEN_LEAD)).max()) < MAX_SKEW and bool((scale > 0).all())
    return found if is_sound else None


def _keep(path: Path, directions: Floats) -> None:
    """A disk that refuses costs only the next start's time."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            made = Path(folder) / path.name
            np.save(made, directions)
            os.replace(made, path)
    except OSError as error:
        log.warning("the screen of the head could not be kept", path=str(path), reason=str(error))
