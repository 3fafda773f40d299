"""Validation as the services use it: in the sandbox, within a time, with the latest verdicts remembered."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from stagemesh.runtime.errors import Internal, InvalidRequest
from stagemesh.runtime.telemetry import get_logger
from stagemesh.validation.anchors import Anchor
from stagemesh.validation.constraint import Constraint
from stagemesh.validation.data import request_data
from stagemesh.validation.limits import Limits
from stagemesh.validation.rule import Rule
from stagemesh.validation.sandbox import Fault, LimitExceeded, Sandbox
from stagemesh.validation.verdict import Verdict, from_data

log = get_logger(__name__)

MAX_REMEMBERED_BYTES = 65_536
"""A larger verdict is not kept."""


EXCEEDED_FOR_S = 30.0
"""How long a call that exceeded its limits is not tried again."""


@dataclass(frozen=True, kw_only=True)
class _Outcome:
    result: Any = None
    refusal: tuple[str, str, str] | None = None
    """Reason, message and field."""
    exceeded: bool = False
    until_s: float = math.inf


@dataclass(frozen=True, kw_only=True)
class CheckerConfig:
    limits: Limits = field(default_factory=Limits)
    timeout_s: float = 1.0
    """For one call; a schema that exceeds it is refused."""
    max_remembered: int = 512
    """Verdicts and refusals that are kept for repeated questions."""


class Checker:
    """Every method raises InvalidRequest for what cannot be enforced and Exhausted when too many calls wait."""

    def __init__(self, sandbox: Sandbox, config: CheckerConfig) -> None:
        self._sandbox = sandbox
        self._config = config
        self._limits = asdict(config.limits)
        self._remembered: OrderedDict[bytes, _Outcome] = OrderedDict()

    async def check(self, constraint: Constraint, anchors: Sequence[Anchor | Rule], tenant_id: str = "") -> None:
        """Whether constraint and anchors can be enforced at all. One tenant's checks never take all processes."""
        try:
            await self._call("check", request_data(constraint, anchors), lane=tenant_id)
        except LimitExceeded:
            raise too_complex() from None

    async def validate(self, text: str, constraint: Constraint, anchors: Sequence[Anchor | Rule]) -> Verdict:
        argument = {**request_data(constraint, anchors), "text": text, "brief": False}
        try:
            return from_data(await self._call("validate", argument))
        except LimitExceeded:
            log.info("validating again, briefly")
        # Listing all breaches may be what is too much; whether and where the first one is may still be known.
        try:
            return from_data(await self._call("validate", {**argument, "brief": True}))
        except LimitExceeded:
            raise too_complex() from None

    async def call(self, name: str, constraint: Constraint, anchors: Sequence[Anchor | Rule], **extra: Any) -> Any:
        """The result of another handler of the sandbox. Raises LimitExceeded, too."""
        return await self._call(name, {**request_data(constraint, anchors), **extra})

    async def _call(self, name: str, argument: dict[str, Any], lane: str = "") -> Any:
        argument["limits"] = self._limits
        key = hashlib.blake2b(json.dumps([name, argument]).encode(), digest_size=16).digest()
        outcome = self._recall(key)
        if outcome is None:
            outcome = await self._outcome(name, argument, lane)
            self._remember(key, outcome)
        if outcome.refusal is not None:
            raise InvalidRequest(*outcome.refusal[:2], field=outcome.refusal[2])
        if outcome.exceeded:
            raise LimitExceeded(name)
        return outcome.result

    async def _outcome(self, name: str, argument: dict[str, Any], lane: str) -> _Outcome:
        try:
            return _Outcome(result=await self._sandbox.call(name, argument, self._config.timeout_s, lane))
        except InvalidRequest as error:
            return _Outcome(refusal=(error.reason, error.message, error.field))
        except LimitExceeded:
            # On a busy machine the same call may succeed later.
            return _Outcome(exceeded=True, until_s=time.monotonic() + EXCEEDED_FOR_S)
        except Fault:
            log.exception("validation failed")
            raise Internal("INTERNAL", "the validation itself failed; the service's log has the details") from None

    def _recall(self, key: bytes) -> _Outcome | None:
        outcome = self._remembered.get(key)
        if outcome is None or time.monotonic() > outcome.until_s:
            return None
        self._remembered.move_to_end(key)
        return outcome

    def _remember(self, key: bytes, outcome: _Outcome) -> None:
        if outcome.result is not None and len(json.dumps(outcome.result)) > MAX_REMEMBERED_BYTES:
            return
        self._remembered[key] = outcome
        self._remembered.move_to_end(key)
        if len(self._remembered) > self._config.max_remembered:
            self._remembered.popitem(last=False)


def too_complex() -> InvalidRequest:
    return InvalidRequest(
        "CONSTRAINT_TOO_COMPLEX",
        "checking a text against this constraint takes too much time or memory; simplify it",
        field="constraint",
    )
