"""The C interface of `kernels.h` with Python's types: arrays are checked here, so that C++ need not."""

from __future__ import annotations

import ctypes
import sys
import weakref
from array import array
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from ctypes import addressof, byref
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from services.engine.kernels.native.address import address_of
from services.engine.kernels.native.build import KernelsUnavailable, Level, built_library, supported_levels
from services.engine.kernels.native.c_interface import (
    SAMPLING_SIGNATURES,
    SIGNATURES,
    CBatch,
    CChoice,
    CLayer,
    CLora,
    CShape,
)
from services.engine.kernels.native.lora import LORA_TARGETS, MAX_ADAPTERS, MAX_RANK, LoraPart, target_shape
from services.engine.kernels.native.token_mask import TokenMask

Floats = npt.NDArray[np.float32]
Int32s: TypeAlias = "npt.NDArray[np.int32] | array[int]"
"""C's 32-bit integers, as numpy's array or as Python's of type `i`."""

FORMATS: Mapping[str, int] = {"Q4_0": 0, "Q4_1": 1, "Q8_0": 2, "BF16": 3}
"""GGML type names of the weights that the kernels multiply with."""
KV_FORMATS: Mapping[str, int] = {"bfloat16": 0, "int8": 1}
BLOCK_ROWS = 16
GROUP = 32
FEW = 32
"""Up to so many numbers Python looks through faster than it calls numpy."""
ONE_REFERENCE = 2
"""What `sys.getrefcount` says of an object that only an attribute refers to: its argument counts as well."""
MAX_WEIGHT_SETS = 4
SCREEN_LEAD = 64
"""Directions that a screened head keeps in 8 bits."""
MAX_SKEW = 2e-6
"""How far products of two directions may be from 0, and of one with itself from 1; the bounds allow for it."""
OUT_OF_REACH = -1e30
"""In the place of a logit that cannot win."""


@dataclass(frozen=True)
class KernelLibrary:
    """The kernels for one instruction set."""

    level: Level
    c: ctypes.CDLL
    """Calls release the GIL."""
    short_calls: ctypes.PyDLL
    """The functions of sampling.h for calls of microseconds, which keep the GIL: where another thread wants it, to
    give it away and get it back costs more."""


def load_kernels(cache_dir: Path, level: Level | None = None) -> KernelLibrary:
    """The kernels for `level`, by default the processor's best. Raises KernelsUnavailable with a sentence."""
    levels = supported_levels()
    if not levels:
        raise KernelsUnavailable("the native kernels need a Linux machine with AVX2 and FMA")
    chosen = level or levels[0]
    path = built_library(chosen, cache_dir)
    try:
        c, short_calls = ctypes.CDLL(str(path)), ctypes.PyDLL(str(path))
    except OSError as error:
        raise KernelsUnavailable(f"the native kernels cannot be loaded: {error}") from None
    for calls, signatures in ((c, {**SIGNATURES, **SAMPLING_SIGNATURES}), (short_calls, SAMPLING_SIGNATURES)):
        for name, (result, arguments) in signatures.items():
            function = getattr(calls, name)
            function.restype, function.argtypes = result, arguments
    return KernelLibrary(chosen, c, short_calls)


class Matrix:
    """Packed weights: [rows, cols], rows rounded up to 16."""

    def __init__(
        self, library: KernelLibrary, format_: str, rows: int, cols: int, exact_form_of: Matrix | None = None
    ) -> None:
        assert cols % GROUP == 0, cols
        self.library = library
        self.format = format_
        self.rows, self.cols = -(-rows // BLOCK_ROWS) * BLOCK_ROWS, cols
        self.handle: int
        self.base = exact_form_of or self
        """Whose memory it is."""
        if exact_form_of is not None:
            self.handle = _made(library.c.sm_matrix_exact(exact_form_of.handle))
        else:
            self.handle = _made(library.c.sm_matrix_new(FORMATS[format_], rows, cols))
        _free_with(self, library.c.sm_matrix_free, self.handle)

    def exact(self) -> Matrix:
        """The same weights in the same memory, multiplied with activations as they are: nothing is rounded but sums."""
        return Matrix(self.library, f"{self.format}-F32", self.rows, self.cols, exact_form_of=self)

    def fill(self, raw: npt.NDArray[np.uint8], first_block: int, block_step: int = 1) -> None:
        """Take rows of GGUF blocks, [n, bytes per row]; 16 at a time go to every `block_step`-th block of rows."""
        last = first_block + (-(-len(raw) // BLOCK_ROWS) - 1) * block_step
        assert 0 <= first_block <= last < self.rows // BLOCK_ROWS, "rows beyond the matrix"
        raw = np.ascontiguousarray(raw)
        self.library.c.sm_matrix_fill(self.handle, raw.ctypes.data, len(raw), first_block, block_step)

    def num_bytes(self) -> int:
        """Of its own memory."""
        return 0 if self.base is not self else int(self.library.c.sm_matrix_bytes(self.handle))

    def row(self, index: int) -> Floats:
        """One row, dequantized: [cols]"""
        assert 0 <= index < self.rows, index
        out = np.empty(self.cols, dtype=np.float32)
        self.library.c.sm_dequantize_row(self.handle, index, out.ctypes.data)
        return out

    def multiply(self, x: Floats) -> Floats:
        """[n, cols] → [n, rows], with activations in 8 bits, or as they are for BF16 and exact weights"""
        x = _array(x, np.float32)
        assert x.shape[1:] == (self.cols,), x.shape
        out = np.empty((len(x), self.rows), dtype=np.float32)
        _check(self.library.c.sm_matmul(self.handle, x.ctypes.data, len(x), out.ctypes.data))
        return out


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a decoder is built with; see kernels.h."""

    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    ffn_size: int
    num_pages: int
    num_threads: int
    rms_norm_eps: float
    kv_format: str = "bfloat16"
    """Of KV_FORMATS."""


@dataclass(frozen=True, kw_only=True)
class Layer:
    """The weights of one layer. `gate_up` alternates 16 rows of gate and 16 of up."""

    qkv: Matrix
    output: Matrix
    gate_up: Matrix
    down: Matrix
    attention_norm: Floats
    ffn_norm: Floats
    qkv_bias: Floats | None
    output_bias: Floats | None
    q_norm: Floats | None
    k_norm: Floats | None
    window: int = 0
    """How many last tokens a token sees, itself included; 0: all."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One token is chosen from a row of logits: the largest, or of logit / temperature + noise.

    Logits that cannot win may be missing then: they are OUT_OF_REACH.
    """

    temperature: float = 0.0
    noise_key: int = 0
    lowered: array[int] | None = None
    """Tokens whose logits are lowered or forbidden before the choice. None may be raised."""
    wants_all: bool = False
    """No logit may be missing, but for those of tokens that `mask` forbids."""
    mask: TokenMask | None = None
    """What may be chosen at all, if that is limited."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """N rows of a step, those of a sequence together and in order."""

    token_ids: Int32s
    """[N]"""
    positions: Int32s
    """[N]"""
    sequences: Int32s
    """[N] index into `page_starts`"""
    page_starts: Int32s
    """Where each sequence's page table begins in `pages`."""
    pages: Int32s
    sample_rows: Int32s
    """Rows whose logits are wanted, ascending."""
    adapters: Int32s | None = None
    """[N] number of each row's adapter, −1: none"""
    choices: Sequence[Choice] | None = None
    """[samples] what each row of logits is for; None: all of them are wanted"""


class Decoder:
    """A model in memory, in one or more precisions over one pool of KV pages.

    Not for two threads at once; moving pages has rules of its own, see `PageIo`.
    """

    def __init__(self, library: KernelLibrary, shape: Shape, cos: Floats, sin: Floats) -> None:
        """cos, sin: [positions, head_dim / 2]"""
        self.library, self._c = library, library.c
        self.shape = shape
        self.num_positions = len(cos)
        self._matrices: list[Matrix] = []  # the C side keeps pointers to them
        self._sets: dict[str, int] = {}
        self._layers: dict[tuple[str, int], Layer] = {}
        self._ends: dict[str, tuple[Matrix, Matrix, Floats]] = {}
        self._formats: defaultdict[str, set[str]] = defaultdict(set)
        self._logits = np.empty(0, dtype=np.float32)
        cos, sin = _array(cos, np.float32), _array(sin, np.float32)
        assert cos.shape == sin.shape == (len(cos), shape.head_dim // 2), cos.shape
        self.rotary = cos, sin
        """[positions, D / 2] each"""
        values = CShape(num_positions=len(cos), **{**vars(shape), "kv_format": KV_FORMATS[shape.kv_format]})
        self.handle = _made(self._c.sm_decoder_new(byref(values), cos.ctypes.data, sin.ctypes.data))
        _free_with(self, self._c.sm_decoder_free, self.handle)

    @property
    def weights(self) -> tuple[str, ...]:
        """Names of the weight sets, the first set first."""
        return tuple(self._sets)

    def set_layer(self, weights: str, index: int, layer: Layer) -> None:
        """A layer of the set named `weights`; a set that is stepped with needs all its layers and its ends."""
        matrices = {name: value for name, value in vars(layer).items() if isinstance(value, Matrix)}
        vectors = {
            name: _array(value, np.float32) for name, value in vars(layer).items() if isinstance(value, np.ndarray)
        }
        self._layers[weights, index] = layer
        self._matrices += matrices.values()
        self._formats[weights].update(matrix.format for matrix in matrices.values())
        values = CLayer(
            **{name: matrix.handle for name, matrix in matrices.items()},
            **{name: vector.ctypes.data for name, vector in vectors.items()},
            window=layer.window,
        )
        self._c.sm_decoder_set_layer(self.handle, self._number(weights), index, byref(values))

    def set_ends(self, weights: str, embedding: Matrix, head: Matrix, norm: Floats) -> None:
        self._matrices += [embedding, head]
        self._formats[weights].update({embedding.format, head.format})
        self.head_rows = head.rows
        norm = _array(norm, np.float32)
        self._ends[weights] = embedding, head, norm
        self._c.sm_decoder_set_ends(self.handle, self._number(weights), embedding.handle, head.handle, norm.ctypes.data)

    def head(self, weights: str) -> Matrix:
        """The matrix that gives the logits of the set named `weights`."""
        return self._ends[weights][1]

    def layer(self, weights: str, index: int) -> Layer:
        """A layer of the set named `weights`."""
        return self._layers[weights, index]

    def ends(self, weights: str) -> tuple[Matrix, Matrix, Floats]:
        """Embedding, output head and the weights of the last norm of the set named `weights`."""
        return self._ends[weights]

    def screen_head(self, weights: str, vocab_size: int, basis: Floats, scale: Floats) -> None:
        """From now on a step with these weights computes only the logits that can win, for rows with a choice.

        basis: [SCREEN_LEAD, hidden], orthonormal directions in which hidden states are large; scale: [hidden], above 0.
        They decide how many logits are computed, never which are right.
        """
        basis, scale = _array(basis, np.float32), _array(scale, np.float32)
        assert basis.shape == (SCREEN_LEAD, self.shape.hidden_size), basis.shape
        assert scale.shape == (self.shape.hidden_size,), scale.shape
        assert float(np.abs(basis @ basis.T - np.eye(SCREEN_LEAD)).max()) < MAX_SKEW, "not orthonormal"
        assert bool((scale > 0).all()), "a scale that is not positive"
        arguments = (self._number(weights), vocab_size, basis.ctypes.data, scale.ctypes.data)
        self.check(self._c.sm_decoder_screen_head(self.handle, *arguments))

    def step(self, batch: Batch, seconds: npt.NDArray[np.float64] | None, weights: str | None = None) -> Floats:
        """Write the rows' KV by the set named `weights`, by default the first; [samples, head rows].

        `seconds`: [5], the step's parts are added to it.
        """
        weight_set = 0 if weights is None else self._sets[weights]
        logits = self._room_for_logits(len(batch.sample_rows))
        values = self.checked(batch)
        times = None if seconds is None else seconds.ctypes.data
        self.check(self._c.sm_decoder_step(self.handle, weight_set, byref(values), address_of(logits), times))
        return logits

    def checked(self, batch: Batch) -> CBatch:
        """The C form, which refers to the memory of `batch`."""
        arrays: list[Int32s] = [batch.token_ids, batch.positions, batch.sequences, batch.page_starts, batch.pages]
        arrays.append(batch.sample_rows)
        if batch.adapters is not None:
            arrays.append(batch.adapters)
        assert all(map(_is_int32, arrays)), "integers of another size"
        assert _largest(batch.positions) < self.num_positions, "a position beyond the rotary tables"
        assert _largest(batch.pages) < self.shape.num_pages, "a page beyond the pool"
        assert batch.adapters is None or _largest(batch.adapters) < MAX_ADAPTERS, "an adapter beyond the last"
        values = CBatch(len(batch.token_ids), len(batch.sample_rows), *map(address_of, arrays))
        if batch.choices is not None:
            assert len(batch.choices) == len(batch.sample_rows), "a choice for each row of logits"
            choices = (CChoice * len(batch.choices))(*(CChoice(*_choice(choice)) for choice in batch.choices))
            values.choices = addressof(choices)
            values.kept_alive = choices
        return values

    def set_adapter(self, adapter: int, parts: Sequence[LoraPart]) -> None:
        """The adapter of that number becomes `parts`; without parts it is taken away.

        For any thread, also while a step runs in which no row has this adapter.
        """
        assert 0 <= adapter < MAX_ADAPTERS, adapter
        matrices: list[Floats] = []  # lives as long as the pointers to it
        values = []
        for part in parts:
            a, b = _array(part.a, np.float32), _array(part.b, np.float32)
            rows, cols = target_shape(part.target, self.shape)
            assert 0 <= part.layer < self.shape.num_layers, part.layer
            assert a.shape == (len(a), cols), a.shape
            assert b.shape == (rows, len(a)), b.shape
            assert 1 <= len(a) <= MAX_RANK, len(a)
            matrices += [a, b]
            target = LORA_TARGETS[part.target]
            values.append(CLora(part.layer, target, len(a), part.scale, a.ctypes.data, b.ctypes.data))
        structures = (CLora * len(parts))(*values)
        self.check(self._c.sm_decoder_set_adapter(self.handle, adapter, structures, len(parts)))

    def _room_for_logits(self, num_samples: int) -> Floats:
        """Memory of an earlier step, once nobody holds a view of it: the system clears new pages in each step."""
        size = num_samples * self.head_rows
        if self._logits.size < size or sys.getrefcount(self._logits) > ONE_REFERENCE:
            self._logits = np.empty(size, dtype=np.float32)
        return self._logits[:size].reshape(num_samples, self.head_rows)

    def limit_threads(self, most: int) -> None:
        """Use at most so many of the threads from the next step on; for the thread that runs the steps."""
        self._c.sm_limit_threads(self.handle, most)

    def read_pass(self, weights: str | None = None) -> int:
        """Read what a step of one row reads of the weights, and compute nothing. Returns the number of bytes.

        Bytes by its time is the rate that decoding is compared with.
        """
        return int(self._c.sm_read_pass(self.handle, 0 if weights is None else self._sets[weights]))

    @staticmethod
    def check(status: int) -> None:
        """Raises MemoryError for what a function of the library says."""
        _check(status)

    def formats(self, weights: str) -> frozenset[str]:
        """The formats of the matrices that a step with these weights multiplies with."""
        return frozenset(self._formats[weights])

    def _number(self, weights: str) -> int:
        assert weights in self._sets or len(self._sets) < MAX_WEIGHT_SETS, "too many weight sets"
        return self._sets.setdefault(weights, len(self._sets))

    def zero_page(self, page: int) -> None:
        assert 0 <= page < self.shape.num_pages, page
        self._c.sm_decoder_zero_page(self.handle, page)

    def copy_page(self, page: int, to: int) -> None:
        assert 0 <= page < self.shape.num_pages, page
        assert 0 <= to < self.shape.num_pages, to
        self._c.sm_decoder_copy_page(self.handle, page, to)

    def weight_bytes(self) -> int:
        return sum({matrix.base.handle: matrix.base.num_bytes() for matrix in self._matrices}.values())

    def kv_bytes(self) -> int:
        """Size when every page has been written."""
        return int(self._c.sm_decoder_kv_bytes(self.handle))


def _free_with(owner: object, free: Callable[[int], None], handle: int) -> None:
    # Not at the interpreter's end: a daemon thread may still be in a step, and the system takes the memory anyway.
    weakref.finalize(owner, free, handle).atexit = False


def _array(values: npt.NDArray[Any], dtype: type[Any]) -> npt.NDArray[Any]:
    assert values.dtype == dtype, values.dtype
    return np.ascontiguousarray(values)


def _choice(choice: Choice) -> tuple[float, int, int | None, int | None, int, int]:
    """The C form's fields."""
    lowered = None if not choice.lowered else address_of(choice.lowered)
    mask = None if choice.mask is None else choice.mask.address
    num_lowered = len(choice.lowered or ())
    return choice.temperature, choice.noise_key, lowered, mask, num_lowered, int(choice.wants_all)


def _is_int32(values: Int32s) -> bool:
    return values.typecode == "i" if isinstance(values, array) else values.dtype == np.int32


def _largest(values: Int32s) -> int:
    """The largest of at least one."""
    return max(values) if len(values) <= FEW else int(np.frombuffer(values, np.int32).max())


def _made(handle: int | None) -> int:
    if handle is None:
        raise MemoryError("the native kernels found no memory")
    return handle


def _check(status: int) -> None:
    if status:
        raise MemoryError("the native kernels found no memory")
