"""Makes sequences from Submit messages; grammars are compiled in threads of their own, off the step loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from services.engine.adapter_store import AdapterStore
from services.engine.constraint_compiler import ConstraintCompiler
from services.engine.ending import Ending
from services.engine.grammar_trials import GrammarTrials
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
from stagemesh.runtime.errors import Exhausted
from stagemesh.validation.fair_slots import FairSlots
from stagemesh.validation.messages import constraint_of

BUILD_TIMEOUT_S = 10.0
"""What passed its trial is built in a thread; it takes about as long as there, but may wait for others."""
NICENESS = 10


class SequenceFactory:
    def __init__(
        self,
        identity: common_pb2.ModelIdentity,
        modes: HeldModes,
        vocabulary: Vocabulary,
        limits: RequestLimits,
        compiler: ConstraintCompiler,
        trials: GrammarTrials,
        num_compilers: int,
        adapters: AdapterStore,
    ) -> None:
        self._identity = identity
        self._modes = modes
        self._vocabulary = vocabulary
        self._limits = limits
        self._compiler = compiler
        self._trials = trials
        self._adapters = adapters
        self._slots = FairSlots(num_compilers)
        self._executor = ThreadPoolExecutor(
            num_compilers, thread_name_prefix="engine-grammar", initializer=give_way_to_steps
        )

    def check(self, submit: engine_pb2.Submit) -> SamplingParams:
        """Everything that can be checked at once. Raises InvalidRequest or Precondition."""
        self.computed_by(submit.policy, submit.model)
        params = check_submit(submit, self._limits)
        if submit.HasField("constraint"):
            self._compiler.check_size(submit.constraint)
        return params

    def builds_at_once(self, submit: engine_pb2.Submit) -> bool:
        """Whether there is nothing to compile and nothing to replay: `build_at_once` takes microseconds."""
        return not submit.HasField("constraint") and not submit.delivered_token_ids

    def build_at_once(self, submit: engine_pb2.Submit, params: SamplingParams) -> tuple[Sequence, Ending | None]:
        """As `build`, for a plain sequence."""
        by = self.computed_by(submit.policy, submit.model)
        return build_sequence(submit, params, None, self._vocabulary, self._limits, by)

    async def build(self, submit: engine_pb2.Submit, params: SamplingParams) -> tuple[Sequence, Ending | None]:
        """The sequence, and its ending if the delivered tokens complete it.

        Raises InvalidRequest, or Exhausted or Unavailable where a constraint cannot be compiled at present.
        """
        if self.builds_at_once(submit):
            return self.build_at_once(submit, params)
        by = self.computed_by(submit.policy, submit.model)
        if submit.HasField("constraint"):
            await self._trials.check(constraint_of(submit.constraint), submit.tenant_id)
        try:
            async with asyncio.timeout(BUILD_TIMEOUT_S):
                loop = asyncio.get_running_loop()
                build = partial(loop.run_in_executor, self._executor, self._compile_and_build, submit, params, by)
                return await self._slots.run(build, submit.tenant_id or "-")
        except TimeoutError:
            message = "the engine is busy with other constraints; try again"
            raise Exhausted("VALIDATION_BUSY", message, retry_after_ms=1_000) from None

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

    async def warm_up(self) -> None:
        """Start the processes that try out constraints."""
        await self._trials.warm_up()

    async def stop(self) -> None:
        """End the processes that try out constraints."""
        await self._trials.close()

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _compile_and_build(
        self, submit: engine_pb2.Submit, params: SamplingParams, by: ComputedBy
    ) -> tuple[Sequence, Ending | None]:
        constraint = None
        if submit.HasField("constraint"):
            constraint = self._compiler.compile(submit.constraint, max_output_tokens(submit, params, self._limits))
        return build_sequence(submit, params, constraint, self._vocabulary, self._limits, by)


def give_way_to_steps() -> None:
    """Lower the priority of the calling thread, where the system has one for each thread."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
