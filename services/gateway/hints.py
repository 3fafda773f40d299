"""Early prefill: a client sends the prompt so far while its user types, and its KV is computed ahead of the request.

A hint is worked on like a request up to the engine, which computes the prompt's full pages under the tenant's salt and
one token that nobody sees. The request that follows finds the pages in the pool; the hint is ended by then, and what it
has computed stays. Hints promise nothing: what is too many is dropped and counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing

from services.gateway import metrics
from services.gateway.config import GatewayConfig
from services.gateway.generation import build_submit
from services.gateway.job import Job
from services.gateway.peers import Peers
from services.gateway.prepare import prepare
from services.gateway.work import Prompt, Work
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.errors import StagemeshError
from stagemesh.runtime.kv_keys import PAGE_TOKENS
from stagemesh.runtime.telemetry import get_logger

Key = tuple[str, str, str]
"""Tenant, user and session: of each there is one hint at a time."""

log = get_logger(__name__)


class Hints:
    def __init__(self, peers: Peers, config: GatewayConfig, new_work: Callable[[Job], Work]) -> None:
        """`new_work`: a run of the job that no caller follows."""
        self._peers, self._config, self._new_work = peers, config, new_work
        self._tasks: dict[Key, asyncio.Task[None]] = {}

    def offer(self, job: Job) -> bool:
        """Compute the job's prompt instead of what an earlier hint said; False where there are too many hints."""
        key = _key(job.tenant_id, job.request)
        self.supersede(job.tenant_id, job.request)
        of_tenant = sum(tenant_id == job.tenant_id for tenant_id, _, _ in self._tasks)
        if of_tenant >= self._config.max_hints_per_tenant or len(self._tasks) >= self._config.max_hints:
            metrics.HINTS.labels("dropped").inc()
            return False
        task = asyncio.create_task(self._run(job), name=f"hint {job.request_id}")
        self._tasks[key] = task
        task.add_done_callback(lambda done: self._forget(key, done))
        return True

    def supersede(self, tenant_id: str, request: gateway_pb2.InferenceRequest) -> None:
        """The request that was hinted at has come, or a newer hint: what has been computed stays."""
        if (task := self._tasks.pop(_key(tenant_id, request), None)) is not None:
            task.cancel()

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _forget(self, key: Key, task: asyncio.Task[None]) -> None:
        if self._tasks.get(key) is task:
            del self._tasks[key]

    async def _run(self, job: Job) -> None:
        fate = "superseded"
        try:
            async with asyncio.timeout(self._config.hint_timeout_s):
                fate = await self._compute(self._new_work(job))
        except (StagemeshError, TimeoutError) as error:
            fate = "failed"
            log.info("hint came to nothing", reason=getattr(error, "reason", "TIMEOUT"))
        finally:
            metrics.HINTS.labels(fate).inc()

    async def _compute(self, work: Work) -> str:
        """Gives the hint's fate."""
        work.is_ahead = True
        prompt = await prepare(work, self._peers, self._config)
        submit = hint_submit(work, prompt)
        if submit is None:
            return "too_short"
        deltas = self._peers.engines.run(
            work.job.model,
            submit,
            work.deadline,
            max_attempts=1,
            engine_wait_s=self._config.engine_wait_s,
            placement=prompt.placement,
        )
        failed = False
        async with aclosing(deltas):
            async for delta, _ in deltas:
                failed |= delta.finish.HasField("error")
        if failed:
            return "failed"
        self._peers.prefixes.served(work.job.tenant_id, prompt.token_ids, prompt.placement)
        self._peers.sessions.served(work.job.tenant_id, work.job.request.session_id, prompt.placement)
        return "computed"


def hint_submit(work: Work, prompt: Prompt) -> engine_pb2.Submit | None:
    """The full pages of the prompt and one token after them; None where there is no page, or none may be reused."""
    num_tokens = len(prompt.token_ids) // PAGE_TOKENS * PAGE_TOKENS
    if not num_tokens or not prompt.lease.salt:
        return None
    submit = build_submit(work.job, prompt, work.outputs[0], work.deadline)
    submit.sequence_id = f"{work.job.tenant_id}/hint/{work.job.request_id}"
    # One more, since an engine leaves a prompt's last token out of the pages that it reuses.
    del submit.token_ids[min(len(prompt.token_ids), num_tokens + 1) :]
    submit.ClearField("constraint")
    submit.sampling.max_tokens = 1
    submit.sampling.ClearField("min_tokens")
    return submit


def _key(tenant_id: str, request: gateway_pb2.InferenceRequest) -> Key:
    return tenant_id, request.user_id, request.session_id
