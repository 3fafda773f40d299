"""Where an array lies in memory, found three to five times as fast as through `numpy.ndarray.ctypes`."""

from __future__ import annotations

from array import array
from ctypes import addressof, c_char
from typing import Any

import numpy.typing as npt


def address_of(values: npt.NDArray[Any] | array[int]) -> int | None:
    """For a C function that is called while the caller holds `values`; None for an empty array.

    Raises TypeError for memory that is read-only or not contiguous.
    """
    # numpy's type does not say that it is a buffer on Python 3.11.
    return addressof(c_char.from_buffer(values)) if len(values) else None  # type: ignore[arg-type]
