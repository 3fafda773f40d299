"""Who may do what in the two Redis servers: a user for each service, with the keys that are its own.

The embedded servers get these users; deploy/redis/*.acl has them for servers of one's own (decision 0213).
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass

from stagemesh.embedded.valkey_kind import Kind

COMMANDS = "+@all -@admin -@dangerous"
"""No configuration, no listing of keys, no flushing, no debugging."""


@dataclass(frozen=True)
class RedisUser:
    service: str
    """Whose it is, and its name."""
    keys: tuple[str, ...]
    """Patterns as Redis spells them, with the access before the `~`."""

    def rule(self, password: str) -> str:
        """The line of a configuration or ACL file."""
        return f"user {self.service} on >{password} resetchannels {' '.join(self.keys)} {COMMANDS}"


USERS: dict[Kind, tuple[RedisUser, ...]] = {
    Kind.LEDGER: (
        RedisUser("gateway", ("~stagemesh:ledger:*", "~stagemesh:tenant*", "~outbox:*")),
        RedisUser("cache", ("~stagemesh:cache:*",)),
        RedisUser("worker", ("%R~outbox:*",)),
        RedisUser("differ", ("~outbox:*",)),
        RedisUser("validator", ("~stagemesh:anchors:*",)),
        RedisUser(
            "corrector", ("%R~stagemesh:anchors:*", "%R~stagemesh:corrector:adapters", "~stagemesh:corrector:tally:*")
        ),
    ),
    Kind.KV: (
        RedisUser("cache", ("~stagemesh:kv:*",)),
        RedisUser("engine", ("~stagemesh:kv:*",)),
    ),
}
"""A service that is not named has no access to that server."""


def password_of(server_password: str, service: str) -> str:
    """A user's password follows from the server's, and says nothing about it or about another user's."""
    return hmac.digest(server_password.encode(), service.encode(), "sha256").hex()


def rules(kind: Kind, server_password: str) -> str:
    """The lines that make the users of a server."""
    return "".join(user.rule(password_of(server_password, user.service)) + "\n" for user in USERS[kind])


def may_use(kind: Kind, service: str) -> bool:
    return any(user.service == service for user in USERS[kind])
