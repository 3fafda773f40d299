"""Names of what Redis holds of users' preferences; like those of knowledge, they do not depend on the epoch.

| kind | type | what |
|---|---|---|
| `wishes` | hash | of one user: ID → JSON of the wish and how often it was stated |
| `wishes-seen` | sorted set | the last requests that were looked at, so that a repeated one counts once |
"""

from __future__ import annotations

from dataclasses import dataclass

from services.cache.knowledge.keys import tenant_key


@dataclass(frozen=True)
class UserKeys:
    tenant_id: str
    user_id: str

    def wishes(self) -> bytes:
        return tenant_key(b"wishes", self.tenant_id, self.user_id)

    def seen(self) -> bytes:
        return tenant_key(b"wishes-seen", self.tenant_id, self.user_id)
