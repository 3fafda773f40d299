"""Fairness among tenants: the virtual token counter of Sheng et al., "Fairness in Serving Large Language Models"
(OSDI 2024).

Each tenant's counter grows by what it was served; whoever has the lowest goes first. A tenant that comes back after a
pause is lifted to the lowest of those that are there, so that nobody saves up service by staying away.
"""

from __future__ import annotations

from collections import Counter

PROMPT_WEIGHT = 1.0
OUTPUT_WEIGHT = 2.0
"""The paper's weights: an output token costs about as much as two of a prompt."""
SLACK_TOKENS = 8192.0
"""How much more than the least served a tenant may get before its requests stand behind those of others."""
MAX_REMEMBERED = 10_000


class TokenCounters:
    def __init__(self, slack_tokens: float = SLACK_TOKENS) -> None:
        self.slack_tokens = slack_tokens
        self._served: dict[str, float] = {}
        self._live: Counter[str] = Counter()
        """Requests of each tenant that wait or run."""

    def arrived(self, tenant_id: str) -> None:
        """A request of the tenant waits from now on."""
        if not self._live[tenant_id]:
            self._lift(tenant_id)
        self._live[tenant_id] += 1

    def left(self, tenant_id: str) -> None:
        """A request of the tenant has ended."""
        self._live[tenant_id] -= 1
        if self._live[tenant_id] <= 0:
            del self._live[tenant_id]
        if not self._live:  # nobody waits, so nobody is owed anything
            self._served.clear()

    def served(self, tenant_id: str, *, prompt_tokens: int = 0, output_tokens: int = 0) -> None:
        """The tenant got so much."""
        weighted = PROMPT_WEIGHT * prompt_tokens + OUTPUT_WEIGHT * output_tokens
        self._served[tenant_id] = self._served.get(tenant_id, 0.0) + weighted

    def counter(self, tenant_id: str) -> float:
        return self._served.get(tenant_id, 0.0)

    def is_ahead(self, tenant_id: str) -> bool:
        """Whether the tenant got so much more than another that is there that the other's requests go first."""
        return self.counter(tenant_id) > self.limit()

    def limit(self) -> float:
        """The counter above which a tenant is ahead; infinite where there are no others."""
        if len(self._live) < 2:
            return float("inf")
        return min(self.counter(tenant_id) for tenant_id in self._live) + self.slack_tokens

    def _lift(self, tenant_id: str) -> None:
        if self._live.total():
            self._served[tenant_id] = max(self.counter(tenant_id), self._least_of_others(tenant_id))
        if len(self._served) > MAX_REMEMBERED:  # those who left first; they would be lifted on their return anyway
            gone = next((known for known in self._served if not self._live[known] and known != tenant_id), tenant_id)
            self._served.pop(gone)

    def _least_of_others(self, tenant_id: str) -> float:
        return min((self.counter(other) for other in self._live if other != tenant_id), default=0.0)
