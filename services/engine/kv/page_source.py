"""Where the bytes of stored pages come from: host memory, else the KV Redis."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby

from services.engine.block_manager import KnownPage
from services.engine.kv.bulk_read import read_values
from services.engine.kv.counters import Counters
from services.engine.kv.host_tier import HostTier
from services.engine.kv.miss_cause import MissCause
from services.engine.kv.page_codec import Value
from services.engine.kv.store_link import StoreFailed, StoreLink
from services.engine.page_table import Owner
from stagemesh.runtime.kv_keys import value_name

MAX_ERASED_TENANTS = 4_096


class PageSource:
    """Host memory for any thread, the KV Redis for the loader's."""

    def __init__(self, host: HostTier, link: StoreLink | None, counters: Counters) -> None:
        self.host = host
        self.num_erasures = 0
        self._erased: dict[str, int] = {}
        """Which erasure was the last of a tenant; the latest stand last."""
        self._num_dropped = 0
        """The last erasure of those tenants that are not listed any more, who may be all."""
        self._link = link
        self._counters = counters

    def num_near(self, owners: Sequence[Owner], digests: Sequence[bytes]) -> int:
        """How many leading pages lie in host memory."""
        total = 0
        for space, start, end in _runs(owners):
            total += self.host.num_leading(space, digests[start:end])
            if total < end:
                break
        return total

    def near(self, pages: Sequence[KnownPage]) -> list[Value]:
        """The values of leading pages in host memory."""
        values: list[Value] = []
        for space, start, end in _runs([page.owner for page in pages]):
            values += self.host.get(space, [page.digest for page in pages[start:end]])
            if len(values) < end:
                break
        return values

    def keep(self, pages: Sequence[KnownPage], values: Sequence[Value], num_erasures: int) -> None:
        """Put values into host memory, but those of tenants that were erased since there were `num_erasures`."""
        for space, start, end in _runs([page.owner for page in pages]):
            pairs = zip(pages[start:end], values[start:end], strict=True)
            was_erased = partial(self.was_erased, pages[start].owner.tenant_id, num_erasures)
            self.host.put(space, [(page.digest, value) for page, value in pairs], is_void=was_erased)

    def was_erased(self, tenant_id: str, num_erasures: int) -> bool:
        """Whether a tenant may have been erased since there were `num_erasures`. For any thread."""
        return self._erased.get(tenant_id, self._num_dropped) > num_erasures

    def forget(self, pages: Iterable[KnownPage]) -> None:
        """Drop values from host memory."""
        for page in pages:
            self.host.forget(page.owner.tenant_id.encode(), [page.digest])

    def forget_tenant(self, tenant_id: str) -> None:
        """Drop all that host memory holds of a tenant; what is on its way there does not arrive. For one thread."""
        self.num_erasures += 1
        self._erased.pop(tenant_id, None)
        self._erased[tenant_id] = self.num_erasures
        if len(self._erased) > MAX_ERASED_TENANTS:
            oldest = next(iter(self._erased))
            self._num_dropped = self._erased[oldest]
            del self._erased[oldest]
        self.host.forget(tenant_id.encode())  # after it is counted: `put` looks at that under the tier's lock

    def obstacle(self) -> MissCause | None:
        """Why the KV Redis would not be asked now."""
        if self._link is None:
            return MissCause.NO_STORE
        return None if self._link.can_call() else MissCause.STORE_UNAVAILABLE

    def far(self, spaces: Sequence[bytes], digests: Sequence[bytes], timeout_s: float) -> list[Value]:
        """The leading values that the KV Redis holds in these namespaces. Raises StoreFailed."""
        if self._link is None:
            raise StoreFailed(MissCause.NO_STORE)
        names = [value_name(space, digest) for space, digest in zip(spaces, digests, strict=True)]
        with self._link.within(timeout_s) as client:
            found = read_values(client, names)
        values: list[Value] = []
        for value in found:
            if value is None:
                break
            values.append(value)
        self._counters.add("read_bytes", "store", sum(map(len, values)))
        return values

    def close(self) -> None:
        if self._link is not None:
            self._link.close()


def _tenant(owner: Owner) -> str:
    return owner.tenant_id


def _runs(owners: Sequence[Owner]) -> Iterator[tuple[bytes, int, int]]:
    """Host namespace, start and end of neighbours in the same: a public prefix, then the tenant's own."""
    start = 0
    for tenant_id, group in groupby(owners, _tenant):
        end = start + sum(1 for _ in group)
        yield tenant_id.encode(), start, end
        start = end
