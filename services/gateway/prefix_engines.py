"""Which engine computed a prompt that begins alike: it has those pages in its pool, so it gets the next such prompt."""

from __future__ import annotations

import hashlib
from array import array
from collections import OrderedDict
from collections.abc import Sequence

from services.gateway.placement import Placement

LENGTHS = (4096, 1024, 256)
"""Beginnings that are remembered, in tokens; shorter ones are computed as quickly as waited for."""
MAX_REMEMBERED = 50_000


class PrefixEngines:
    """Addresses by tenant and beginning, of the prompts last seen."""

    def __init__(self, max_remembered: int = MAX_REMEMBERED) -> None:
        self._addresses: OrderedDict[bytes, str] = OrderedDict()
        self._max_remembered = max_remembered

    def prefer(self, tenant_id: str, token_ids: Sequence[int], placement: Placement) -> None:
        """Have a prompt go where the longest known beginning of it was computed, unless it has a place already.

        It may wait there for as many tokens as it would compute anew elsewhere.
        """
        if placement.preferred:
            return
        for length in LENGTHS:
            address = self._addresses.get(_digest(tenant_id, token_ids, length), "") if len(token_ids) >= length else ""
            if address:
                placement.preferred, placement.slack_tokens = address, length
                return

    def served(self, tenant_id: str, token_ids: Sequence[int], placement: Placement) -> None:
        """An engine has computed the prompt."""
        for length in LENGTHS:
            if len(token_ids) >= length:
                digest = _digest(tenant_id, token_ids, length)
                self._addresses[digest] = placement.address
                self._addresses.move_to_end(digest)
        while len(self._addresses) > self._max_remembered:
            self._addresses.popitem(last=False)


def _digest(tenant_id: str, token_ids: Sequence[int], length: int) -> bytes:
    tokens = array("I", token_ids[:length]).tobytes()
    return hashlib.blake2b(tokens, digest_size=16, key=tenant_id.encode()[:64]).digest()
