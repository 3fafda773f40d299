"""A limit for each tenant, and one for all together."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping

from services.gateway.rates.config import RateConfig
from services.gateway.rates.rate import NOTHING, Rate, RateState, Window
from stagemesh.runtime.errors import Exhausted

ALL = ""
MAX_TENANTS = 10_000
"""Tenants that are remembered; one that was forgotten begins with its floor again."""


class TenantRates:
    def __init__(self, of_all: RateConfig, of_tenant: RateConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._of_tenant, self._clock = of_tenant, clock
        self._all = Rate(of_all, clock)
        self._tenants: OrderedDict[str, Rate] = OrderedDict()

    def refusal(self, tenant_id: str) -> Exhausted | None:
        """Let one request of the tenant in; or why not, and when it may come again."""
        tenant = self._rate_of(tenant_id)
        tenant.ask()
        self._all.ask()
        for rate, whose in ((tenant, f"the tenant {tenant_id}"), (self._all, "all tenants together")):
            if wait_s := rate.wait_s():
                return Exhausted(
                    "RATE_LIMITED",
                    f"more requests of {whose} come than the {rate.limit_per_s:.3g} a second that are let in now",
                    retry_after_ms=max(1, math.ceil(wait_s * 1000)),
                )
        tenant.take()
        self._all.take()
        return None

    def state(self, tenant_id: str) -> RateState:
        """The tenant's limit, or that of all where it is the nearer one."""
        return min(self._rate_of(tenant_id).state(), self._all.state(), key=lambda state: state.remaining)

    def windows(self) -> dict[str, Window]:
        """What has come to this gateway, by tenant; of all together under `""`."""
        busy = {tenant_id: rate.window() for tenant_id, rate in self._tenants.items() if not rate.is_idle}
        return {**busy, ALL: self._all.window()}

    def refresh(self, others: Mapping[str, Window], num_gateways: int) -> None:
        """Set all limits anew, by what `windows` says here and said at the other gateways together."""
        self._all.refresh(others.get(ALL, NOTHING), num_gateways)
        for tenant_id in others.keys() - {ALL}:
            self._rate_of(tenant_id)  # it counts here as well, before its first request comes
        for tenant_id, rate in self._tenants.items():
            rate.refresh(others.get(tenant_id, NOTHING), num_gateways)

    def _rate_of(self, tenant_id: str) -> Rate:
        rate = self._tenants.get(tenant_id)
        if rate is None:
            rate = self._tenants[tenant_id] = Rate(self._of_tenant, self._clock)
            if len(self._tenants) > MAX_TENANTS:
                self._tenants.popitem(last=False)
        self._tenants.move_to_end(tenant_id)
        return rate
