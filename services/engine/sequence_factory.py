"""Makes sequences from Submit messages; grammars are compiled in threads of their own, off the step loop."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from services.engine.adapter_store import AdapterStore
from services.engine.constraint import invalid_constraint
from services.engine.constraint_compiler import ConstraintCompiler
from services.engine.ending import Ending
from services.engine.modes import HeldModes
from services.engine.request import (
    ComputedBy,
    RequestLimits,
    build_sequence,
    check_identity,
    check_submit,
    max_output_tokens,
)
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
        adapters: AdapterStore,
    ) -> None:
        self._identity = identity
        self._modes = modes
        self._vocabulary = vocabulary
        self._limits = limits
        self._compiler = compiler
        self._compile_timeout_s = compile_timeout_s
        self._adapters = adapters
        self._executor = ThreadPoolExecutor(NUM_COMPILERS, thread_name_prefix="engine-grammar")

    def check(self, submit: engine_pb2.Submit) -> SamplingParams:
        """Everything that can be checked at once. Raises InvalidRequest or Precondition."""
        self.computed_by(submit.policy, submit.model)
        params = check_submit(submit, self._limits)
        if submit.HasField("constraint"):
            self._compiler.check_size(submit.constraint)
        return params

    async def build(self, submit: engine_pb2.Submit, params: SamplingParams) -> tuple[Sequence, Ending | None]:
        """The sequence, and its ending if the delivered tokens complete it. Raises InvalidRequest."""
        by = self.computed_by(submit.policy, submit.model)
        if not submit.HasField("constraint") and not submit.delivered_token_ids:
            return build_sequence(submit, params, None, self._vocabulary, self._limits, by)
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._executor, self._compile_and_build, submit, params, by)
        try:
            async with asyncio.timeout(self._compile_timeout_s):
                return await work
        except TimeoutError:
            raise invalid_constraint(f"it was not ready within {self._compile_timeout_s:g} s; simplify it") from None

    def computed_by(self, policy: common_pb2.Policy, expected: common_pb2.ModelIdentity) -> ComputedBy:
        """What computes a request.

        Raises Precondition where the caller expects another model, NotFound for an adapter that is not loaded, or
        InvalidRequest.
        """
        mode = self._modes.asked(policy, self._identity.model)
        by = ComputedBy(mode=mode, precision=self._modes.precisions[mode], adapter=self._adapters.find(expected))
        check_identity(expected, self.identity(by))
        return by

    def identity(self, by: ComputedBy) -> common_pb2.ModelIdentity:
        """Of all that computes a request."""
        identity = common_pb2.ModelIdentity()
        identity.CopyFrom(self._identity)
        identity.precision = by.precision
        if by.adapter is not None:
            identity.adapter = by.adapter.name
            identity.adapter_generation = by.adapter.generation
            identity.adapter_revision = by.adapter.revision
        return identity

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _compile_and_build(
        self, submit: engine_pb2.Submit, params: SamplingParams, by: ComputedBy
    ) -> tuple[Sequence, Ending | None]:
        constraint = None
        if submit.HasField("constraint"):
            constraint = self._compiler.compile(submit.constraint, max_output_tokens(submit, params, self._limits))
        return build_sequence(submit, params, constraint, self._vocabulary, self._limits, by)
