"""The sandbox's children while they start."""

from __future__ import annotations

import asyncio

import pytest

from stagemesh.validation.checker import Checker, CheckerConfig
from stagemesh.validation.constraint import Constraint, Kind
from stagemesh.validation.sandbox import Sandbox, SandboxConfig


@pytest.mark.timeout(60)
async def test_calls_that_come_while_the_children_start_are_answered() -> None:
    sandbox = Sandbox("stagemesh.validation.worker", SandboxConfig(num_workers=2))
    checker = Checker(sandbox, CheckerConfig(timeout_s=60.0))
    try:
        warming = asyncio.create_task(sandbox.warm_up())
        await asyncio.sleep(0)
        texts = [f'{{"n": {number}}}' for number in range(6)]
        constraint = Constraint(kind=Kind.JSON_OBJECT)
        verdicts = await asyncio.gather(*(checker.validate(text, constraint, ()) for text in texts))
        await warming
        assert all(verdict.valid for verdict in verdicts)
        assert len(sandbox._idle) == 2
        await sandbox.warm_up()
        assert None not in sandbox._idle
    finally:
        await sandbox.close()
