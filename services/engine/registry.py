"""All live sequences of this engine, between the calls that ask and the core that computes. Lives on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from services.engine.adapter_store import adapter_gone
from services.engine.core_thread import Add, Command, End, ForgetTenant
from services.engine.ending import Ending
from services.engine.sampling_params import SamplingParams
from services.engine.sequence import Sequence
from services.engine.sequence_factory import SequenceFactory
from services.engine.subscriber import Subscriber
from services.engine.tracked import Tracked, fingerprint_of
from services.engine.updates import Finished, Load, StepOutput
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.runtime.errors import (
    AlreadyExists,
    Exhausted,
    Internal,
    InvalidRequest,
    Precondition,
    StagemeshError,
    Unavailable,
)
from stagemesh.runtime.telemetry import get_logger

log = get_logger(__name__)

MIN_RETRY_AFTER_MS = 100
ABORTED = Ending(common_pb2.FINISH_REASON_ABORT)


@dataclass(frozen=True, kw_only=True)
class RegistryLimits:
    max_live: int
    """Sequences running and waiting."""
    result_grace_s: float
    """How long a finished sequence's output is kept."""


class Registry:
    """Finds a sequence by its ID, so that a repeated Submit attaches instead of computing twice."""

    def __init__(self, factory: SequenceFactory, send: Callable[[Command], None], limits: RegistryLimits) -> None:
        self._factory = factory
        self._send = send
        self._limits = limits
        self._tracked: dict[str, Tracked] = {}
        self._num_live = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._load_changed = asyncio.Event()
        self.load = Load()
        self.draining = False

    @property
    def num_live(self) -> int:
        return self._num_live

    @property
    def num_starting(self) -> int:
        """Sequences whose constraint is being compiled."""
        return sum(tracked.starting is not None for tracked in self._tracked.values())

    def submit(self, submit: engine_pb2.Submit, subscriber: Subscriber) -> None:
        """Start a sequence, or attach to the one with this ID. Raises StagemeshError when it is refused at once."""
        existing = self._tracked.get(submit.sequence_id)
        if existing is not None and existing.has_failed():
            self._forget_failed(existing)
        elif existing is not None:
            self._attach(existing, submit, subscriber)
            return
        params = self._factory.check(submit)
        self._check_capacity()
        delivered = list(submit.delivered_token_ids)
        tracked = Tracked(
            sequence_id=submit.sequence_id,
            tenant_id=submit.tenant_id,
            fingerprint=b"",
            tokens=delivered,
            num_delivered=len(delivered),
            cursor=len(delivered),
        )
        tracked.subscriber = subscriber
        subscriber.attach(tracked)
        self._tracked[submit.sequence_id] = tracked
        self._num_live += 1
        self._idle.clear()
        self._note_load()
        if self._factory.builds_at_once(submit):
            self._start_at_once(tracked, submit, params)
        else:
            tracked.starting = asyncio.ensure_future(self._start(tracked, submit, params))
        tracked.fingerprint = fingerprint_of(submit)  # last: the core has begun by now

    def cancel(self, sequence_id: str) -> None:
        """End a sequence at the next step boundary; unknown and ended ones are left alone."""
        tracked = self._tracked.get(sequence_id)
        if tracked is None or tracked.finished is not None:
            return
        if tracked.starting is not None:
            tracked.starting.cancel()
            self._finish_unstarted(tracked, ABORTED)
        else:
            self._send(End(sequence_id, ABORTED))

    def forget(self, tenant_id: str) -> None:
        """Keep nothing of a tenant for reuse, from the next step boundary on; nor of what is still starting."""
        for tracked in self._tracked.values():
            tracked.is_forgotten |= tracked.starting is not None and tracked.tenant_id == tenant_id
        self._send(ForgetTenant(tenant_id))

    def detach(self, subscriber: Subscriber) -> None:
        """The caller has gone: its sequences end after its grace unless somebody attaches."""
        for tracked in tuple(self._tracked.values()):
            if tracked.subscriber is subscriber:
                tracked.subscriber = None
                if tracked.finished is None:
                    self._schedule_reaping(tracked, subscriber.grace_s)

    def on_output(self, output: StepOutput) -> None:
        """News from the core."""
        for update in output.updates:
            tracked = self._tracked.get(update.sequence_id)
            if tracked is None:
                continue  # the warm-up's, or one that was refused while it started
            tracked.apply(update)
            if update.finished is not None:
                self._ended(tracked)
            if tracked.subscriber is not None:
                tracked.subscriber.notify(tracked)
        if output.load != self.load:
            self.load = output.load
            self._note_load()

    def note_change(self) -> None:
        """Something else than sequences has changed that load reports tell."""
        self._note_load()

    async def load_change(self) -> None:
        """Return at the next change of the load."""
        await self._load_changed.wait()

    async def wait_idle(self, timeout_s: float) -> int:
        """Wait until no sequence is live, at most `timeout_s`; gives the number that still are."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        except TimeoutError:
            return self._num_live
        return 0

    def drain(self) -> None:
        """Refuse new sequences from now on."""
        self.draining = True
        self._note_load()

    def end_starting(self, error: StagemeshError) -> None:
        """End the sequences that the core has not got yet."""
        for tracked in tuple(self._tracked.values()):
            if tracked.starting is not None:
                tracked.starting.cancel()
                self._finish_unstarted(tracked, Ending(common_pb2.FINISH_REASON_ABORT, error=error))

    def close(self) -> None:
        """Stop the timers."""
        for tracked in self._tracked.values():
            if tracked.reaper is not None:
                tracked.reaper.cancel()

    def check_open(self) -> None:
        """Raises Unavailable while the engine drains."""
        if self.draining:
            raise Unavailable("DRAINING", "this engine takes no new work; use another")

    def _forget_failed(self, tracked: Tracked) -> None:
        """A sequence that failed by a fault of the engine may be tried again under its ID."""
        if tracked.reaper is not None:
            tracked.reaper.cancel()
        del self._tracked[tracked.sequence_id]

    def _check_capacity(self) -> None:
        self.check_open()
        if self._num_live >= self._limits.max_live:
            raise Exhausted(
                "QUEUE_FULL",
                f"{self._num_live} sequences run or wait; retry later",
                retry_after_ms=max(MIN_RETRY_AFTER_MS, int(self.load.seconds_per_place * 1000)),
            )

    def _attach(self, tracked: Tracked, submit: engine_pb2.Submit, subscriber: Subscriber) -> None:
        if tracked.fingerprint != fingerprint_of(submit):
            raise AlreadyExists("SEQUENCE_ID_REUSED", "this sequence ID stands for another request")
        self._factory.check(submit)
        known = list(submit.delivered_token_ids)
        if known[: len(tracked.tokens)] != tracked.tokens[: len(known)]:
            raise InvalidRequest(
                "DELIVERED_MISMATCH", "the delivered tokens are not this sequence's", field="delivered_token_ids"
            )
        if tracked.subscriber is not None and tracked.subscriber is not subscriber:
            moved = Precondition("ATTACHED_ELSEWHERE", "another call has attached to this sequence")
            tracked.subscriber.refuse(tracked.sequence_id, moved)
        if tracked.reaper is not None and tracked.finished is None:
            tracked.reaper.cancel()
            tracked.reaper = None
        tracked.attach(subscriber, len(known))
        subscriber.attach(tracked)

    def _start_at_once(self, tracked: Tracked, submit: engine_pb2.Submit, params: SamplingParams) -> None:
        """As `_start`, for a plain sequence: without the turns of the event loop that a task takes."""
        try:
            built = self._factory.build_at_once(submit, params)
        except Exception as error:  # noqa: BLE001  told to the sequence's caller
            self._refuse_for(tracked, error)
        else:
            self._hand_over(tracked, *built)

    async def _start(self, tracked: Tracked, submit: engine_pb2.Submit, params: SamplingParams) -> None:
        try:
            built = await self._factory.build(submit, params)
        except Exception as error:  # noqa: BLE001  told to the sequence's caller
            self._refuse_for(tracked, error)
        else:
            self._hand_over(tracked, *built)

    def _hand_over(self, tracked: Tracked, sequence: Sequence, ending: Ending | None) -> None:
        """A sequence is built: the core gets it, unless there is nothing to compute."""
        tracked.starting = None
        if sequence.adapter is not None and sequence.adapter.is_freed:
            self._refuse(tracked, adapter_gone(sequence.adapter))
        elif ending is None:
            sequence.table.is_forgotten = tracked.is_forgotten
            self._send(Add(sequence))
        else:
            self._finish_unstarted(tracked, ending, sequence)

    def _refuse_for(self, tracked: Tracked, error: Exception) -> None:
        if not isinstance(error, StagemeshError):
            log.error("sequence could not be started", sequence_id=tracked.sequence_id, exc_info=error)
            error = Internal("INTERNAL", "the sequence could not be started; the engine's log has more")
        self._refuse(tracked, error)

    def _refuse(self, tracked: Tracked, error: StagemeshError) -> None:
        """Forget a sequence that never started, so that its ID can be used again."""
        tracked.starting = None
        self._end_live()
        del self._tracked[tracked.sequence_id]
        if tracked.subscriber is not None:
            tracked.subscriber.refuse(tracked.sequence_id, error)

    def _finish_unstarted(self, tracked: Tracked, ending: Ending, sequence: Sequence | None = None) -> None:
        """`sequence`: what its delivered tokens, and those that follow without a choice, have come to."""
        tracked.starting = None
        if sequence is not None:
            tracked.tokens += sequence.tokens[sequence.num_prompt + tracked.num_delivered :]
        tracked.finished = Finished(
            ending=ending,
            prompt_tokens=0 if sequence is None else sequence.num_prompt,
            completion_tokens=len(tracked.tokens),
            cached_tokens=0,
            stage_seconds=(),
            forced_tokens=0 if sequence is None else sequence.num_forced,
        )
        self._ended(tracked)
        if tracked.subscriber is not None:
            tracked.subscriber.notify(tracked)

    def _ended(self, tracked: Tracked) -> None:
        self._end_live()
        self._schedule_reaping(tracked, self._limits.result_grace_s)

    def _end_live(self) -> None:
        self._num_live -= 1
        self._note_load()
        if self._num_live == 0:
            self._idle.set()

    def _schedule_reaping(self, tracked: Tracked, delay_s: float) -> None:
        if tracked.reaper is not None:
            tracked.reaper.cancel()
        tracked.reaper = asyncio.get_running_loop().call_later(delay_s, self._reap, tracked)

    def _reap(self, tracked: Tracked) -> None:
        tracked.reaper = None
        if tracked.finished is None:
            self.cancel(tracked.sequence_id)
        elif self._tracked.get(tracked.sequence_id) is tracked:
            del self._tracked[tracked.sequence_id]

    def _note_load(self) -> None:
        self._load_changed.set()
        self._load_changed = asyncio.Event()
