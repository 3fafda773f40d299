"""Work in progress: each request a task, from its start to its final event or its way elsewhere."""

from __future__ import annotations

import asyncio

from services.gateway.event_store import EventStore
from services.gateway.job import Job
from services.gateway.requests import Key, Requests
from services.gateway.runner import Runner
from services.gateway.running import RunningRequest
from services.gateway.stages import StageLog
from services.gateway.work import Delivered, Work, new_outputs
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.deadline import Deadline
from stagemesh.runtime.identity import Identity


class Workbench:
    def __init__(self, identity: Identity, runner: Runner, requests: Requests, events: EventStore) -> None:
        self._identity = identity
        self._runner = runner
        self._requests = requests
        self._events = events
        self._tasks: set[asyncio.Task[None]] = set()
        self.left: list[Key] = []
        """Requests that a drain had to stop."""

    def new_work(
        self, job: Job, running: RunningRequest, deadline: Deadline, accepted_s: float, delivered: Delivered
    ) -> Work:
        return Work(
            job=job,
            running=running,
            log_stages=StageLog(self._identity),
            deadline=deadline,
            accepted_s=accepted_s,
            outputs=new_outputs(job, delivered),
        )

    def start(
        self,
        job: Job,
        running: RunningRequest,
        deadline: Deadline,
        accepted_s: float,
        delivered: Delivered,
        *,
        keep_events: bool = False,
        begun: asyncio.Event | None = None,
    ) -> Work:
        """Begin to work on a request that has a place in its route's queue; the place is given back at the end.

        `begun`, where the ledger is asked meanwhile, is set by the caller afterwards.
        """
        work = self.new_work(job, running, deadline, accepted_s, delivered)
        work.log_stages.publish = lambda report: running.publish(stage=report)
        work.begun = begun
        if keep_events:
            running.keep = True
            running.on_event(lambda event: self._events.append(job.tenant_id, job.request_id, event))
        running.publish(queued=gateway_pb2.Queued(request_id=job.request_id))
        task = asyncio.create_task(self._work(work), name=f"request {job.request_id}")
        running.attach_task(task)
        if running.cancel_requested:  # while it was being accepted
            running.cancel()
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return work

    async def _work(self, work: Work) -> None:
        key = (work.job.tenant_id, work.job.request_id)
        try:
            await self._runner.work(work)
        finally:
            self._runner.queues[work.job.route_name].leave(work.job.tenant_id)
            self._requests.forget(key)
            if work.running.done:
                self._requests.remember(work.running)
            else:  # deferred, or handed over: readers follow it wherever it goes on
                self._requests.follow_into(work.running)

    async def drain(self, grace_s: float) -> None:
        """Let tasks end within the grace, then stop them; their requests are nobody's then."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace_s)
        self.left = self._requests.keys()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
