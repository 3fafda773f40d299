"""One fault on purpose: where, what, how often."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from stagemesh.runtime.errors import InvalidRequest

ENGINE_STAGES = ("embed", "attend", "mlp", "norm", "sample")
STAGES = ("admit", "analyze", "tokenize", "cache", *ENGINE_STAGES, "detokenize", "validate", "correct")
"""In the order in which a request passes them."""
MAX_WAIT_MS = 600_000


class Kind(StrEnum):
    ERROR = "error"
    """An unexpected exception."""
    DELAY = "delay"
    """It takes longer, and then goes well."""
    HANG = "hang"
    """It does not come back before its caller gives up."""
    NAN = "nan"
    """Numbers that are not finite; in the engine's stages alone, since the others compute none."""
    OOM = "oom"
    """There is no memory for it."""
    KILL = "kill"
    """The process ends at once, as by `kill -9`."""


WAIT_MS = {Kind.DELAY: 500, Kind.HANG: 60_000}
"""How long the two that wait do so, where nothing is said."""


class InjectedFault(Exception):
    """An exception that nobody expects, on purpose."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Raises InvalidRequest for what cannot be."""

    stage: str
    kind: Kind
    rate: float = 1.0
    """Probability in (0, 1] with which the stage fails when it runs."""
    times: int = 0
    """How often it happens at most; 0: without end."""
    wait_ms: int = 0
    """Of `delay` and `hang`; 0: their default."""
    seed: int = 0
    """Of the draws; the same seed gives the same ones."""
    layer: int | None = None
    """Where in the engine; None: a layer in the middle."""

    def __post_init__(self) -> None:
        if self.stage not in STAGES:
            raise InvalidRequest("INVALID_FAULT", f"there is no stage {self.stage!r}; stages: {', '.join(STAGES)}")
        if self.kind not in kinds_of(self.stage):
            known = ", ".join(kinds_of(self.stage))
            raise InvalidRequest("INVALID_FAULT", f"{self.stage} cannot fail by {str(self.kind)!r}; kinds: {known}")
        for name, value, is_right, range_ in (
            ("rate", self.rate, 0 < self.rate <= 1, "above 0, at most 1"),
            ("times", self.times, 0 <= self.times <= 10**9, "0 to 1,000,000,000"),
            ("ms", self.wait_ms, 0 <= self.wait_ms <= MAX_WAIT_MS, f"0 to {MAX_WAIT_MS:,}"),
            ("seed", self.seed, 0 <= self.seed < 2**63, "0 to 2⁶³ - 1"),
            ("layer", self.layer, self.layer is None or 0 <= self.layer < 2**16, "0 to 65,535"),
        ):
            if not is_right:
                raise InvalidRequest("INVALID_FAULT", f"{name} is {value}, and must be {range_}")

    @property
    def wait_s(self) -> float:
        return (self.wait_ms or WAIT_MS.get(self.kind, 0)) / 1000


def kinds_of(stage: str) -> Sequence[Kind]:
    """The kinds that `stage` can fail by."""
    return [kind for kind in Kind if kind is not Kind.NAN or stage in ENGINE_STAGES]
