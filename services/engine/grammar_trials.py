"""Whether a constraint can be built at all, found out in a disposable process, once."""

from __future__ import annotations

import asyncio
import math
import tempfile
import time
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from services.engine.config import ConstraintConfig
from services.engine.grammar_builder import GrammarLimits
from services.engine.grammar_source import FIELDS
from services.engine.grammar_trial import arguments_of
from stagemesh.models.tokenizer_file import TokenizerFile
from stagemesh.runtime.errors import Internal, InvalidRequest, StagemeshError
from stagemesh.runtime.telemetry import get_logger
from stagemesh.validation.constraint import Constraint
from stagemesh.validation.data import request_data
from stagemesh.validation.sandbox import Fault, LimitExceeded, Sandbox, SandboxConfig

log = get_logger(__name__)

EXCEEDED_FOR_S = 30.0
"""How long a constraint that exceeded its limits is not tried again; on a busy machine it may succeed later."""
MAX_VERDICTS = 512
MAX_WAIT_S = 10.0
"""For a process to be free: after a start, or while the same tenant's other constraints are tried."""
TRIAL = "services.engine.grammar_trial"


@dataclass(frozen=True)
class _Verdict:
    error: StagemeshError | None = None
    until_s: float = math.inf


class GrammarTrials:
    """Used from one event loop."""

    def __init__(self, tokenizer: TokenizerFile, vocab_size: int, config: ConstraintConfig) -> None:
        self._tokenizer, self._vocab_size, self._config = tokenizer, vocab_size, config
        self._sandbox: Sandbox | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._verdicts: OrderedDict[Constraint, _Verdict] = OrderedDict()
        self._trying: dict[Constraint, asyncio.Future[_Verdict]] = {}

    async def warm_up(self) -> None:
        """Start the processes; what fails here is tried again with the first constraint."""
        try:
            await self._processes().warm_up()
        except StagemeshError as error:
            log.warning("processes that try out grammars were not started", error=str(error))

    async def check(self, constraint: Constraint, tenant_id: str) -> None:
        """Raises InvalidRequest for what cannot be built within its limits; Exhausted or Unavailable where that could
        not be found out."""
        verdict = self._verdicts.get(constraint)
        if verdict is None or time.monotonic() > verdict.until_s:
            verdict = await self._tried(constraint, tenant_id)
            self._verdicts[constraint] = verdict
            if len(self._verdicts) > MAX_VERDICTS:
                self._verdicts.popitem(last=False)
        self._verdicts.move_to_end(constraint)
        if verdict.error is not None:
            raise verdict.error

    async def close(self) -> None:
        if self._sandbox is not None:
            await self._sandbox.close()
        if self._folder is not None:
            self._folder.cleanup()

    def _processes(self) -> Sandbox:
        """Not started before they are needed; they read the tokenizer from a file."""
        if self._sandbox is None:
            config = self._config
            self._folder = tempfile.TemporaryDirectory(prefix="stagemesh-grammar-")
            path = Path(self._folder.name, "tokenizer.json")
            path.write_text(self._tokenizer.json, encoding="utf-8")
            limits = GrammarLimits(
                max_lexer_states=config.max_lexer_states, max_grammar_symbols=config.max_grammar_symbols
            )
            self._sandbox = Sandbox(
                TRIAL,
                SandboxConfig(num_workers=config.compilers, memory_bytes=config.compile_memory_mb << 20),
                arguments_of(str(path), self._vocab_size, self._tokenizer.eos_token_ids, limits),
            )
        return self._sandbox

    async def _tried(self, constraint: Constraint, tenant_id: str) -> _Verdict:
        """Requests with the same constraint wait for one trial together."""
        trial = self._trying.get(constraint)
        if trial is None:
            trial = self._trying[constraint] = asyncio.ensure_future(self._try(constraint, tenant_id))
            trial.add_done_callback(lambda done: self._ended(constraint, done))
        return await asyncio.shield(trial)

    def _ended(self, constraint: Constraint, trial: asyncio.Future[_Verdict]) -> None:
        del self._trying[constraint]
        if not trial.cancelled():
            trial.exception()  # its waiters have it; perhaps none is left

    async def _try(self, constraint: Constraint, tenant_id: str) -> _Verdict:
        try:
            timeout_s = self._config.compile_timeout_s
            await self._processes().call(
                "build", request_data(constraint, ()), timeout_s, lane=tenant_id or "-", wait_s=MAX_WAIT_S
            )
        except InvalidRequest as error:
            return _Verdict(error)
        except LimitExceeded:
            return _Verdict(self._too_complex(constraint), time.monotonic() + EXCEEDED_FOR_S)
        except Fault:
            log.exception("trying out a grammar failed")
            raise Internal("INTERNAL", "compiling the constraint failed; the engine's log has the details") from None
        return _Verdict()

    def _too_complex(self, constraint: Constraint) -> InvalidRequest:
        return InvalidRequest(
            "CONSTRAINT_TOO_COMPLEX",
            f"building its grammar takes more than {self._config.compile_timeout_s:g} s or "
            f"{self._config.compile_memory_mb} MB; use fewer properties or alternatives, or shorter repetitions",
            field=FIELDS[constraint.kind],
        )
