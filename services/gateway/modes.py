"""The precision mode of a request: what its caller asks for, within its limit, or what the rules say."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

from services.gateway import metrics
from services.gateway.adapters import WantedAdapter
from services.gateway.alerts import Alerts
from services.gateway.engines import Engines
from services.gateway.job import Job
from services.gateway.mode_rules import Mode, ModesConfig, mode_by_rule
from services.gateway.store import GuardedLedger
from stagemesh.api.common.v1 import common_pb2
from stagemesh.runtime import precise_limit
from stagemesh.runtime.errors import Unavailable
from stagemesh.runtime.precision_mode import mode_name
from stagemesh.runtime.redis_client import Redis

PRECISE, STANDARD = common_pb2.PRECISION_MODE_PRECISE, common_pb2.PRECISION_MODE_STANDARD
LIMITED = "PRECISE_LIMIT"
MAX_REMEMBERED = 10_000


class Modes:
    """Decides once, when a request is accepted: the ledger keeps the request with its mode."""

    def __init__(
        self, config: ModesConfig, engines: Engines, redis: Redis, ledger: GuardedLedger, alerts: Alerts
    ) -> None:
        self._config, self._engines, self._redis, self._ledger = config, engines, redis, ledger
        self._alerts = alerts
        self._in_a_row: OrderedDict[tuple[str, str], None] = OrderedDict()
        """Users whose last request here asked for `precise`: only of them something else is told to Redis."""

    async def decide(self, job: Job) -> Job:
        """The job with its mode filled in; `mode_limited` where it is not the one that was asked for."""
        asked = job.request.policy.precision_mode
        if asked == PRECISE:
            return await self._within_limit(job)
        await self._interrupt(job)
        if self.choose_by_rule(job):
            metrics.MODES_BY_RULE.labels(mode_name(job.request.policy.precision_mode)).inc()
        return job

    def choose_by_rule(self, job: Job) -> bool:
        """Fill in the mode of a job whose caller names none; whether a rule applied."""
        if job.request.policy.precision_mode:
            return False
        chosen = mode_by_rule(job.request, job.route_name, self._config.rules, lambda mode: self._holds(job, mode))
        job.request.policy.precision_mode = chosen
        return bool(chosen)

    async def _within_limit(self, job: Job) -> Job:
        most = self._config.max_precise_in_a_row
        if not most or not self._holds(job, STANDARD):
            return job
        self._remember(job)
        try:
            count = await self._ledger.call(
                precise_limit.count(
                    self._redis,
                    job.tenant_id,
                    job.request.user_id,
                    window_s=self._config.precise_window_s,
                    most=most,
                )
            )
        except Unavailable:
            return job  # nobody counts; the answer is as it was asked for
        if count <= most:
            return job
        job.request.policy.precision_mode = STANDARD
        if count == most + 1:
            self._alerts.raise_alert(
                "precise-limit",
                job.tenant_id,
                job.request_id,
                f"precise was asked for {count} times in a row: it runs in standard for "
                f"{self._config.precise_window_s} s, or until `stagemesh tenant release {job.tenant_id}`",
            )
        metrics.MODES_LIMITED.inc()
        return replace(job, mode_limited=True)

    async def _interrupt(self, job: Job) -> None:
        if self._in_a_row.pop((job.tenant_id, job.request.user_id), self) is self:
            return
        try:
            await self._ledger.call(
                precise_limit.interrupt(
                    self._redis, job.tenant_id, job.request.user_id, most=self._config.max_precise_in_a_row
                )
            )
        except Unavailable:
            self._remember(job)  # the next request tells

    def _remember(self, job: Job) -> None:
        self._in_a_row[job.tenant_id, job.request.user_id] = None
        if len(self._in_a_row) > MAX_REMEMBERED:
            self._in_a_row.popitem(last=False)

    def _holds(self, job: Job, mode: Mode) -> bool:
        return bool(self._engines.serving(job.model, mode, WantedAdapter(job.adapter)))
