"""The requests that this gateway works on or has ended lately, and those it only follows."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from services.gateway.follow import Follower
from services.gateway.job import Job
from services.gateway.running import RunningRequest

Key = tuple[str, str]
"""(tenant ID, request ID)."""


MAX_ENDED_BYTES = 64 * 1024 * 1024
"""Events of ended requests that are kept, as serialized; an answer with many log-probabilities has megabytes."""


class Requests:
    def __init__(self, follower: Follower, *, max_ended: int) -> None:
        self._follower = follower
        self._max_ended = max_ended
        self._running: dict[Key, RunningRequest] = {}
        self._hashes: dict[Key, bytes] = {}
        self._ended: OrderedDict[Key, RunningRequest] = OrderedDict()
        self._ended_bytes = 0
        self._followers: set[asyncio.Task[None]] = set()

    def register(self, job: Job, *, first_seq: int = 1) -> RunningRequest:
        """A request that is worked on from now on."""
        running = RunningRequest(job.tenant_id, job.request_id, first_seq=first_seq)
        running.keep = job.explicit_id or job.request.resumable or job.request.allow_deferral
        key = (job.tenant_id, job.request_id)
        self._running[key], self._hashes[key] = running, job.payload_hash
        return running

    def running(self, key: Key) -> RunningRequest | None:
        """The request, if it is worked on here."""
        return self._running.get(key)

    def hash_of(self, key: Key) -> bytes:
        """The payload hash of a request that is worked on here."""
        return self._hashes[key]

    def find(self, key: Key) -> RunningRequest | None:
        """The request, if it is worked on here or has ended here lately."""
        return self._running.get(key) or self._ended.get(key)

    def keys(self) -> list[Key]:
        """All requests in work."""
        return list(self._running)

    def forget(self, key: Key) -> None:
        """It is no longer worked on here."""
        self._running.pop(key, None)
        self._hashes.pop(key, None)

    def remember(self, running: RunningRequest) -> None:
        """It ended here: its events stay for late watchers, until newer ones push them out."""
        key = (running.tenant_id, running.request_id)
        if (before := self._ended.pop(key, None)) is not None:
            self._ended_bytes -= before.num_bytes()
        self._ended[key] = running
        self._ended_bytes += running.num_bytes()
        while len(self._ended) > self._max_ended or self._ended_bytes > MAX_ENDED_BYTES:
            _, oldest = self._ended.popitem(last=False)
            self._ended_bytes -= oldest.num_bytes()

    def forget_ended(self, key: Key) -> None:
        """Keep no events of a request that ended here."""
        if (ended := self._ended.pop(key, None)) is not None:
            self._ended_bytes -= ended.num_bytes()

    def follow(self, tenant_id: str, request_id: str, after_seq: int = 0) -> RunningRequest:
        """A request that is worked on elsewhere, or later, as if it ran here."""
        running = RunningRequest(tenant_id, request_id, first_seq=after_seq + 1)
        self.follow_into(running)
        return running

    def follow_into(self, running: RunningRequest) -> None:
        """Go on with the events of a request that is no longer worked on here."""
        running.keep = False  # a reader that leaves ends the following, not the request
        task = asyncio.create_task(self._follower.follow(running, self._running), name=f"follow {running.request_id}")
        running.attach_task(task)
        self._followers.add(task)
        task.add_done_callback(self._followers.discard)

    async def close(self) -> None:
        for task in self._followers:
            task.cancel()
        await asyncio.gather(*self._followers, return_exceptions=True)
