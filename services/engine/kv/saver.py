"""The thread that copies pages out of the pool, to host memory and to the KV Redis."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any

from redis.exceptions import ResponseError

from services.engine.kv.counters import Counters
from services.engine.kv.jobs import SaveJob
from services.engine.kv.miss_cause import MissCause
from services.engine.kv.page_port import PagePort
from services.engine.kv.page_source import PageSource
from services.engine.kv.store_link import StoreFailed, StoreLink
from stagemesh.runtime.kv_directory import PublishedPage, publish
from stagemesh.runtime.kv_keys import value_name
from stagemesh.runtime.telemetry import get_logger

log = get_logger(__name__)

UNPUBLISHED_TTL_S = 60
"""How long a value lies in the KV Redis that was written and not published."""
NICENESS = 10
"""Steps go first."""


class Saver:
    def __init__(
        self, port: PagePort, source: PageSource, link: StoreLink | None, counters: Counters, *, timeout_s: float
    ) -> None:
        """`timeout_s`: what writing and publishing the pages of one job may take."""
        self._port, self._source, self._link, self._counters = port, source, link, counters
        self._timeout_s = timeout_s
        self._done: Callable[[SaveJob], None] = _nobody
        self._jobs: deque[SaveJob] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._is_idle = threading.Event()
        self._is_idle.set()
        self._thread = threading.Thread(target=self._loop, name="engine-kv-save", daemon=True)

    def start(self, done: Callable[[SaveJob], None]) -> None:
        """`done` is called from the thread with each job whose pages have been copied."""
        self._done = done
        self._thread.start()

    def save(self, job: SaveJob) -> None:
        """Hand a job over. Whoever does bounds how much waits."""
        with self._changed:
            self._is_idle.clear()
            self._jobs.append(job)
            self._changed.notify()

    def take_back(self, chosen: Callable[[SaveJob], bool]) -> list[SaveJob]:
        """The `chosen` among the jobs that have not been begun, which are dropped."""
        with self._changed:
            jobs = [job for job in self._jobs if chosen(job)]
            for job in jobs:
                self._jobs.remove(job)
        return jobs

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until all that was handed over is stored or dropped; whether it is."""
        return self._is_idle.wait(timeout_s)

    def close(self, timeout_s: float) -> bool:
        """End the thread after the job that is under way; whether it has ended."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _loop(self) -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
        while (job := self._next()) is not None:
            try:
                self._save(job)
            except StoreFailed as failed:
                job.is_lost = True
                self._counters.add("saves_dropped", failed.cause, job.num_pages - job.num_written)
            except Exception:
                job.is_lost = True
                log.exception("storing pages failed", num_pages=job.num_pages)
                self._counters.add("saves_dropped", "SAVE_FAILED", job.num_pages)
        if self._link is not None:
            self._link.close()

    def _next(self) -> SaveJob | None:
        with self._changed:
            while not self._jobs and not self._closing:
                self._is_idle.set()
                self._changed.wait()
            return None if self._closing else self._jobs.popleft()

    def _save(self, job: SaveJob) -> None:
        try:
            exported = self._port.export_pages(job.pages)
        finally:
            self._done(job)
        values = [value for value in takewhile(lambda value: value is not None, exported) if value is not None]
        self._counters.add("saves_dropped", MissCause.NOT_FINITE, len(exported) - len(values))
        self._source.keep(job.pages[: len(values)], values, job.num_erasures)
        if job.lease.ttl_s and self._link is not None:
            self._store(self._link, job, values)

    def _store(self, link: StoreLink, job: SaveJob, values: Sequence[bytes]) -> None:
        with link.within(self._timeout_s) as client:
            pipeline = client.pipeline(transaction=False)
            for space, known, value in zip(job.spaces, job.pages, values, strict=False):
                pipeline.set(value_name(space, known.digest), value, ex=UNPUBLISHED_TTL_S, nx=not job.replaces)
            replies: list[Any] = pipeline.execute(raise_on_error=False)
            written = list(takewhile(lambda reply: not isinstance(reply, Exception), replies))
            pages = [
                PublishedPage(known.digest, len(value), public=space != job.lease.namespace)
                for known, value, space in zip(job.pages, values, job.spaces, strict=False)
            ][: len(written)]
            published = publish(
                client,
                job.lease,
                pages,
                first_page=job.first_page,
                parent=job.pages[0].parent,
                page_s=job.page_s,
            )
            job.num_written = len(written)
            self._counters.add("saved_pages", "", published.entered)
            self._counters.add("saved_bytes", "", sum(page.num_bytes for page in pages))
            if published.refusal == "FORGOTTEN":  # the directory has erased the values that nobody else holds
                self._source.forget(known for known in job.pages if known.owner.tenant_id)
            job.is_lost = bool(published.refusal)
            self._counters.add("saves_dropped", published.refusal, len(pages) * job.is_lost)
            if len(written) < len(replies):
                raise replies[len(written)] if isinstance(replies[len(written)], ResponseError) else ResponseError


def _nobody(_job: SaveJob) -> None:
    raise AssertionError("not started")
