"""Precision modes by the names that callers write, and as messages carry them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from stagemesh.api.common.v1 import common_pb2
from stagemesh.runtime.errors import InvalidRequest, Precondition

HEADER = "x-inference-mode"
"""Of HTTP requests, and metadata of gRPC calls."""
MODES: Mapping[str, common_pb2.PrecisionMode.ValueType] = {
    "turbo": common_pb2.PRECISION_MODE_TURBO,
    "standard": common_pb2.PRECISION_MODE_STANDARD,
    "precise": common_pb2.PRECISION_MODE_PRECISE,
}
_NAMES = {mode: name for name, mode in MODES.items()}


def parse_mode(text: str, field: str = HEADER) -> common_pb2.PrecisionMode.ValueType:
    """The mode named `text`; unspecified for an empty one. Raises InvalidRequest that lists the modes."""
    name = text.strip().lower()
    if not name:
        return common_pb2.PRECISION_MODE_UNSPECIFIED
    if name not in MODES:
        raise InvalidRequest("UNKNOWN_MODE", f"{field} must be one of {', '.join(MODES)}", field=field)
    return MODES[name]


def mode_name(mode: common_pb2.PrecisionMode.ValueType) -> str:
    """Empty for an unspecified mode. Raises InvalidRequest for a number that stands for none."""
    if mode == common_pb2.PRECISION_MODE_UNSPECIFIED:
        return ""
    if mode not in _NAMES:
        raise InvalidRequest("UNKNOWN_MODE", f"there is no precision mode {mode}", field="policy.precision_mode")
    return _NAMES[mode]


def mode_unavailable(wanted: str, model: str, there_are: Iterable[str]) -> Precondition:
    """The error of a request for a mode that exists, and that no engine of the model holds."""
    return Precondition(
        "MODE_UNAVAILABLE",
        f"no engine holds {model} in the mode {wanted}; there are {', '.join(sorted(there_are))};"
        " `engine.modes` adds others",
        field="policy.precision_mode",
    )
