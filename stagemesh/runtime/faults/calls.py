"""Which stages a call runs, and what goes wrong in it."""

from __future__ import annotations

from collections.abc import Mapping

from stagemesh.runtime.faults.board import board
from stagemesh.runtime.faults.header import HEADER, parse_faults
from stagemesh.runtime.faults.strike import strike

STAGES_OF_METHOD: Mapping[str, tuple[str, ...]] = {
    "/stagemesh.api.tokenizer.v1.TokenizerService/Prepare": ("tokenize",),
    "/stagemesh.api.cache.v1.CacheService/OpenSession": ("cache",),
    "/stagemesh.api.cache.v1.CacheService/Resolve": ("cache",),
    "/stagemesh.api.validator.v1.ValidatorService/Validate": ("validate",),
    "/stagemesh.api.corrector.v1.CorrectorService/Correct": ("correct",),
}
"""Calls that are one stage as a whole. Those that run for many requests at once, and the analysis beside the
tokenizing, look for faults themselves."""


async def at_call(method: str, metadata: Mapping[str, str]) -> None:
    """A call begins: what is to go wrong with its stage does. Called only where there may be something."""
    stages = STAGES_OF_METHOD.get(method, ())
    if not stages or not board.is_allowed:
        return
    if (fault := board.draw(*stages)) is not None:
        await strike(fault)
    for sent in parse_faults(metadata.get(HEADER, "")):
        if sent.stage in stages:
            await strike(sent)
