"""Which tokens a grammar allows at one position: told by one thread while another may be in a step that asks."""

from __future__ import annotations

from ctypes import addressof

import numpy as np
import numpy.typing as npt

from services.engine.kernels.native.c_interface import CMask


class TokenMask:
    """Unknown until it is told, once. The kernels compute all logits where it is not told in time."""

    def __init__(self) -> None:
        self._told = CMask()
        self.bits: npt.NDArray[np.uint8] | None = None
        """Token t in bit t % 8 of byte t // 8."""

    @property
    def address(self) -> int:
        """Of the C form, which lives as long as this."""
        return addressof(self._told)

    def tell(self, bits: npt.NDArray[np.uint8]) -> None:
        """For any thread."""
        assert self.bits is None, "told already"
        assert bits.dtype == np.uint8, bits.dtype
        self.bits = np.ascontiguousarray(bits)
        self._told.num_bytes = len(bits)
        self._told.bits = self.bits.ctypes.data  # one store of 8 bytes, and x86 keeps stores in their order
