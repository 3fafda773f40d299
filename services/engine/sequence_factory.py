"""Makes sequences from Submit messages; grammars are compiled in threads of their own, off the step loop."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from services.engine.constraint import ConstraintCompiler, GrammarConstraint, invalid_constraint
from services.engine.ending import Ending
from services.engine.modes import HeldModes, Mode
from services.engine.request import RequestLimits, build_sequence, check_identity, check_submit, max_output_tokens
from services.engine.sampling_params import SamplingParams
from services.engine.sequence import Sequence
from services.engine.vocabulary import Vocabulary
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.engine.v1 import engine_pb2

NUM_COMPILERS = 2


class SequenceFactory:
    def __init__(
        self,
        identity: common_pb2.ModelIdentity,
        modes: HeldModes,
        vocabulary: Vocabulary,
        limits: RequestLimits,
        compiler: ConstraintCompiler,
        compile_timeout_s: float,
    ) -> None:
        self._identity = identity
        self._modes = modes
        self._vocabulary = vocabulary
        self._limits = limits
        self._compiler = compiler
        self._compile_timeout_s = compile_timeout_s
        self._executor = ThreadPoolExecutor(NUM_COMPILERS, thread_name_prefix="engine-grammar")

    def check(self, submit: engine_pb2.Submit) -> SamplingParams:
        """Everything that can be checked at once. Raises InvalidRequest or Precondition."""
        self.mode(submit.policy, submit.model)
        params = check_submit(submit, self._limits)
        if submit.HasField("constraint"):
            self._compiler.check_size(submit.constraint)
        return params

    async def build(self, submit: engine_pb2.Submit, params: SamplingParams) -> tuple[Sequence, Ending | None]:
        """The sequence, and its ending if the delivered tokens complete it. Raises InvalidRequest."""
        if not submit.HasField("constraint") and not submit.delivered_token_ids:
            return self._build(submit, params, None)
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._executor, self._compile_and_build, submit, params)
        try:
            async with asyncio.timeout(self._compile_timeout_s):
                return await work
        except TimeoutError:
            raise invalid_constraint(f"it was not ready within {self._compile_timeout_s:g} s; simplify it") from None

    def mode(self, policy: common_pb2.Policy, expected: common_pb2.ModelIdentity) -> Mode:
        """What computes a request. Raises Precondition where the caller expects another model, or InvalidRequest."""
        mode = self._modes.asked(policy, self._identity.model)
        check_identity(expected, self.identity(mode))
        return mode

    def identity(self, mode: Mode) -> common_pb2.ModelIdentity:
        identity = common_pb2.ModelIdentity()
        identity.CopyFrom(self._identity)
        identity.precision = self._modes.precisions[mode]
        return identity

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _compile_and_build(self, submit: engine_pb2.Submit, params: SamplingParams) -> tuple[Sequence, Ending | None]:
        constraint = None
        if submit.HasField("constraint"):
            constraint = self._compiler.compile(submit.constraint, max_output_tokens(submit, params, self._limits))
        return self._build(submit, params, constraint)

    def _build(
        self, submit: engine_pb2.Submit, params: SamplingParams, constraint: GrammarConstraint | None
    ) -> tuple[Sequence, Ending | None]:
        mode = self._modes.asked(submit.policy, self._identity.model)
        precision = self._modes.precisions[mode]
        return build_sequence(submit, params, constraint, self._vocabulary, self._limits, mode, precision)
