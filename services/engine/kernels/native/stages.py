"""One stage of one layer at a time, on rows that the caller holds: what a replay of a failed step is made of.

A step is `embed`; in each layer `norm`, `attend`, `norm`, `mlp`; then `norm` of the sampled rows and `head`. In this
order the stages give the bits of `Decoder.step`. Rows: [N, H] float32.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import byref
from typing import Literal

import numpy as np

from services.engine.kernels.native.library import Batch, Decoder, Floats

NORMS = {"attention": 0, "ffn": 1, "final": 2}


class Stages:
    """The stages of a decoder by one of its weight sets, by default the first."""

    def __init__(self, decoder: Decoder, weights: str | None = None) -> None:
        self._decoder = decoder
        self._c = decoder.library.c
        self._set = 0 if weights is None else decoder.weights.index(weights)

    def embed(self, batch: Batch) -> Floats:
        """The residual stream before the first layer."""
        x = np.empty((len(batch.token_ids), self._decoder.shape.hidden_size), dtype=np.float32)
        values = self._decoder.checked(batch)
        self._decoder.check(self._c.sm_stage_embed(self._decoder.handle, self._set, byref(values), x.ctypes.data))
        return x

    def norm(self, which: Literal["attention", "ffn", "final"], layer: int, x: Floats) -> Floats:
        """RMS norm; `layer` does not matter for `final`."""
        x = self._rows(x)
        assert 0 <= layer < self._decoder.shape.num_layers, layer
        normed = np.empty_like(x)
        arguments = (self._set, layer, NORMS[which], len(x), x.ctypes.data, normed.ctypes.data)
        self._decoder.check(self._c.sm_stage_norm(self._decoder.handle, *arguments))
        return normed

    def attend(self, layer: int, batch: Batch, normed: Floats, x: Floats) -> Floats:
        """Writes the rows' KV of the layer; `x` plus what attention adds to it."""
        return self._added(self._c.sm_stage_attend, layer, batch, normed, x)

    def mlp(self, layer: int, batch: Batch, normed: Floats, x: Floats) -> Floats:
        """`x` plus what the MLP adds to it."""
        return self._added(self._c.sm_stage_mlp, layer, batch, normed, x)

    def head(self, normed: Floats) -> Floats:
        """[N, head rows]"""
        normed = self._rows(normed)
        logits = np.empty((len(normed), self._decoder.head_rows), dtype=np.float32)
        arguments = (self._set, len(normed), normed.ctypes.data, logits.ctypes.data)
        self._decoder.check(self._c.sm_stage_head(self._decoder.handle, *arguments))
        return logits

    def _added(self, stage: Callable[..., int], layer: int, batch: Batch, normed: Floats, x: Floats) -> Floats:
        normed, out = self._rows(normed), self._rows(x).copy()
        assert 0 <= layer < self._decoder.shape.num_layers, layer
        assert len(normed) == len(out) == len(batch.token_ids), (normed.shape, out.shape)
        values = self._decoder.checked(batch)
        arguments = (self._set, layer, byref(values), normed.ctypes.data, out.ctypes.data)
        self._decoder.check(stage(self._decoder.handle, *arguments))
        return out

    def _rows(self, x: Floats) -> Floats:
        assert x.dtype == np.float32, x.dtype
        assert x.shape[1:] == (self._decoder.shape.hidden_size,), x.shape
        return np.ascontiguousarray(x)
