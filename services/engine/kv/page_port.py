"""Pages of the pool as bytes that say what they are, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np

import stagemesh
from services.engine.block_manager import KnownPage
from services.engine.kernels.native.page_io import PageIo, Payload
from services.engine.kv.exponent_packing import ExponentPacking
from services.engine.kv.host_tier import Packing
from services.engine.kv.miss_cause import MissCause
from services.engine.kv.page_codec import PageCodec, Value, layout_of
from services.engine.kv.page_header import HEADER_BYTES, PageName, PageOrigin
from services.engine.page_table import Owner
from stagemesh.api.common.v1.common_pb2 import ModelIdentity

NUMERICS = "1"
"""To be raised when the engine computes other keys and values from the same weights and tokens."""
MAX_CODECS = 256


class PagePort(Protocol):
    """For the threads that move pages, while the step loop uses other pages of the same pool."""

    @property
    def value_bytes(self) -> int:
        """Size of a page as bytes."""

    @property
    def packing(self) -> Packing | None:
        """How values can lie in host memory in fewer bytes."""

    def export_pages(self, pages: Sequence[KnownPage]) -> list[bytes | None]:
        """The values of held pages; None for one that must not be stored, because it holds what is no number."""

    def import_pages(self, pages: Sequence[KnownPage], values: Sequence[Value]) -> tuple[int, MissCause | None]:
        """Write values into reserved places, up to the first that is not the page wanted there.

        Gives how many were written, and why the next was not.
        """

    def zero(self, pages: Sequence[int]) -> None:
        """Clear places in the pool."""


class NativePort:
    """The pool of the native kernels."""

    def __init__(
        self, io: PageIo, identity: ModelIdentity, format_: str, zero: Callable[[Sequence[int]], None]
    ) -> None:
        """`format_` is one of `io.formats`."""
        self._io, self._identity, self._format, self._zero = io, identity, format_, zero
        self._layout = layout_of(io.shape, format_)
        self._codec = lru_cache(MAX_CODECS)(self._new_codec)

    @property
    def value_bytes(self) -> int:
        return HEADER_BYTES + self._io.page_bytes(self._format)

    @property
    def packing(self) -> Packing | None:
        return ExponentPacking(self._io.library, self._layout) if self._format == "bfloat16" else None

    def export_pages(self, pages: Sequence[KnownPage]) -> list[bytes | None]:
        values = np.empty((len(pages), self.value_bytes), np.uint8)
        finite = self._io.export_pages([known.page for known in pages], self._format, values[:, HEADER_BYTES:])
        for known, value in zip(pages, values, strict=True):
            self._codec(known.owner).seal(_name(known), value)
        return [value.tobytes() if good else None for value, good in zip(values, finite, strict=True)]

    def import_pages(self, pages: Sequence[KnownPage], values: Sequence[Value]) -> tuple[int, MissCause | None]:
        payloads: list[Payload] = []
        cause: MissCause | None = None
        for known, value in zip(pages, values, strict=True):
            payload = self._codec(known.owner).decode(_name(known), value)
            if isinstance(payload, MissCause):
                cause = payload
                break
            payloads.append(payload)
        finite = self._io.import_pages([known.page for known in pages[: len(payloads)]], self._format, payloads)
        if not finite.all():
            return int(finite.argmin()), MissCause.NOT_FINITE
        return len(payloads), cause

    def zero(self, pages: Sequence[int]) -> None:
        self._zero(pages)

    def _new_codec(self, owner: Owner) -> PageCodec:
        origin = PageOrigin(
            tenant_id=owner.tenant_id,
            epoch=owner.epoch,
            revision=self._identity.revision,
            tokenizer_hash=self._identity.tokenizer_hash,
            precision=owner.precision,
            adapter=owner.adapter,
            engine_version=f"{stagemesh.__version__}/{NUMERICS}",
        )
        return PageCodec(self._io.library, origin, self._layout)


def _name(known: KnownPage) -> PageName:
    return PageName(known.digest, known.tokens, known.parent)
