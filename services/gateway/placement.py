"""Which engine a sequence should go to: the one that has its session's pages in memory, unless it is much busier."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from services.gateway.engine_link import EngineLink

MUCH_BUSIER_TOKENS = 4_096
"""Computing a long history anew costs about as much as waiting for this many tokens."""
MAX_SESSIONS = 50_000


@dataclass
class Placement:
    """Where one request goes, and where it went."""

    preferred: str = ""
    """Address of the engine chosen before the sequence was sent; empty for any."""
    slack_tokens: int = MUCH_BUSIER_TOKENS
    """How much busier the preferred one may be than another: waiting for so many tokens costs as much as computing
    anew what it has."""
    address: str = ""
    """Of the engine that it went to last."""
    served_by: str = ""
    """That engine's instance."""

    def went_to(self, link: EngineLink) -> None:
        self.address = link.address
        self.served_by = link.description.instance if link.description is not None else ""


class SessionEngines:
    """Address of the engine that served each session last, for the sessions last seen."""

    def __init__(self, max_sessions: int = MAX_SESSIONS) -> None:
        self._addresses: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._max_sessions = max_sessions

    def served(self, tenant_id: str, session_id: str, placement: Placement) -> None:
        if not session_id:
            return
        key = (tenant_id, session_id)
        self._addresses[key] = placement.address
        self._addresses.move_to_end(key)
        if len(self._addresses) > self._max_sessions:
            self._addresses.popitem(last=False)

    def last(self, tenant_id: str, session_id: str) -> str:
        """Empty for a session that is not known here."""
        return self._addresses.get((tenant_id, session_id), "")


def choose(links: Sequence[EngineLink], preferred: str = "", slack_tokens: int = MUCH_BUSIER_TOKENS) -> EngineLink:
    """The preferred one of `links`, unless it is much busier; else the less busy of two drawn at random."""
    drawn = min(random.sample(links, min(2, len(links))), key=lambda link: link.in_flight_tokens)
    known = next((link for link in links if link.address == preferred), None)
    if known is not None and known.in_flight_tokens <= drawn.in_flight_tokens + slack_tokens:
        return known
    return drawn


def describe(link: EngineLink, preferred: str) -> str:
    """The choice, for a reader of the stage report."""
    instance = link.description.instance if link.description is not None else link.address
    if link.address == preferred:
        return f"{instance} served the session last"
    return f"{instance} instead of a busier one that served the session last" if preferred else instance
