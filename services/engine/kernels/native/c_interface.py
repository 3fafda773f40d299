"""`kernels.h` for ctypes: structures in the same order, and the functions' signatures."""

from __future__ import annotations

from collections.abc import Mapping
from ctypes import POINTER, Structure, c_double, c_float, c_int32, c_size_t, c_uint64, c_void_p
from typing import Any


class CShape(Structure):
    _fields_ = [
        *(
            (name, c_int32)
            for name in ("num_layers", "hidden_size", "num_heads", "num_kv_heads", "head_dim", "ffn_size")
        ),
        *((name, c_int32) for name in ("num_positions", "num_pages", "num_threads", "kv_format")),
        ("rms_norm_eps", c_float),
    ]


class CLayer(Structure):
    _fields_ = [
        *((name, c_void_p) for name in ("qkv", "output", "gate_up", "down")),
        *((name, c_void_p) for name in ("attention_norm", "ffn_norm", "qkv_bias", "output_bias", "q_norm", "k_norm")),
        ("window", c_int32),
    ]


class CBatch(Structure):
    _fields_ = [
        ("num_rows", c_int32),
        ("num_samples", c_int32),
        *((name, c_void_p) for name in ("token_ids", "positions", "sequences", "page_starts", "pages", "sample_rows")),
        ("adapters", c_void_p),
        ("choices", c_void_p),
    ]


class CMask(Structure):
    """Which tokens may be chosen at one position, once `bits` is there."""

    _fields_ = [("bits", c_void_p), ("num_bytes", c_int32)]


class CChoice(Structure):
    """What one row of logits is for."""

    _fields_ = [
        ("temperature", c_double),
        ("noise_key", c_uint64),
        ("lowered", c_void_p),
        ("mask", c_void_p),
        *((name, c_int32) for name in ("num_lowered", "wants_all")),
    ]


class CLora(Structure):
    _fields_ = [
        *((name, c_int32) for name in ("layer", "target", "rank")),
        ("scale", c_float),
        *((name, c_void_p) for name in ("a", "b")),
    ]


class CDraw(Structure):
    """Of `sampling.h`."""

    _fields_ = [
        ("logits", c_void_p),
        ("allowed", c_void_p),
        *((name, c_int32) for name in ("num_allowed", "is_modified", "top_k")),
        *((name, c_double) for name in ("temperature", "top_p", "min_p")),
        ("noise_key", c_uint64),
    ]


SIGNATURES: Mapping[str, tuple[Any, tuple[Any, ...]]] = {
    "sm_matrix_new": (c_void_p, (c_int32, c_int32, c_int32)),
    "sm_matrix_exact": (c_void_p, (c_void_p,)),
    "sm_matrix_fill": (None, (c_void_p, c_void_p, c_int32, c_int32, c_int32)),
    "sm_matrix_bytes": (c_size_t, (c_void_p,)),
    "sm_matrix_free": (None, (c_void_p,)),
    "sm_convert": (None, (c_int32, c_int32, c_void_p, c_size_t, c_void_p)),
    "sm_decoder_new": (c_void_p, (POINTER(CShape), c_void_p, c_void_p)),
    "sm_decoder_set_layer": (None, (c_void_p, c_int32, c_int32, POINTER(CLayer))),
    "sm_decoder_set_ends": (None, (c_void_p, c_int32, c_void_p, c_void_p, c_void_p)),
    "sm_decoder_screen_head": (c_int32, (c_void_p, c_int32, c_int32, c_void_p, c_void_p)),
    "sm_decoder_set_adapter": (c_int32, (c_void_p, c_int32, POINTER(CLora), c_int32)),
    "sm_stage_embed": (c_int32, (c_void_p, c_int32, POINTER(CBatch), c_void_p)),
    "sm_stage_norm": (c_int32, (c_void_p, c_int32, c_int32, c_int32, c_int32, c_void_p, c_void_p)),
    "sm_stage_attend": (c_int32, (c_void_p, c_int32, c_int32, POINTER(CBatch), c_void_p, c_void_p)),
    "sm_stage_mlp": (c_int32, (c_void_p, c_int32, c_int32, POINTER(CBatch), c_void_p, c_void_p)),
    "sm_stage_head": (c_int32, (c_void_p, c_int32, c_int32, c_void_p, c_void_p)),
    "sm_decoder_step": (c_int32, (c_void_p, c_int32, POINTER(CBatch), c_void_p, c_void_p)),
    "sm_limit_threads": (None, (c_void_p, c_int32)),
    "sm_read_pass": (c_size_t, (c_void_p, c_int32)),
    "sm_page_bytes": (c_size_t, (c_void_p, c_int32)),
    "sm_export_pages": (None, (c_void_p, c_void_p, c_int32, c_int32, c_void_p, c_void_p)),
    "sm_import_pages": (None, (c_void_p, c_void_p, c_int32, c_int32, c_void_p, c_void_p)),
    "sm_checksum": (None, (c_void_p, c_size_t, c_void_p)),
    "sm_pack_bf16": (c_size_t, (c_void_p, c_size_t, c_void_p, c_size_t)),
    "sm_unpack_bf16": (c_int32, (c_void_p, c_size_t, c_size_t, c_void_p)),
    "sm_decoder_zero_page": (None, (c_void_p, c_int32)),
    "sm_decoder_copy_page": (None, (c_void_p, c_int32, c_int32)),
    "sm_decoder_kv_bytes": (c_size_t, (c_void_p,)),
    "sm_decoder_free": (None, (c_void_p,)),
    "sm_dequantize_row": (None, (c_void_p, c_int32, c_void_p)),
    "sm_matmul": (c_int32, (c_void_p, c_void_p, c_int32, c_void_p)),
    "sm_norm_quantize": (c_int32, (c_void_p, c_void_p, c_int32, c_int32, c_float, c_void_p, c_void_p)),
    "sm_attend": (c_int32, (c_void_p,) * 3 + (c_int32,) * 7 + (c_void_p, c_int32, c_void_p)),
    "sm_thread_budget": (None, (c_int32, c_void_p, c_void_p, c_int32, c_void_p)),
}
SAMPLING_SIGNATURES: Mapping[str, tuple[Any, tuple[Any, ...]]] = {
    "sm_draw_tokens": (None, (POINTER(CDraw), c_int32, c_int32, c_void_p)),
    "sm_logprobs": (c_int32, (c_void_p, c_int32, c_int32, c_int32, c_void_p, c_void_p, c_void_p)),
}
"""Function → result, arguments; see kernels.h."""
