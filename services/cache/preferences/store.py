"""Users' preferences in Redis. Each change is one Lua script; every method raises redis-py's errors."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, cast

from services.cache.preferences.config import PreferencesConfig
from services.cache.preferences.keys import UserKeys
from services.cache.preferences.recognizer import Wish
from stagemesh.runtime.errors import Exhausted, NotFound
from stagemesh.runtime.redis_client import Redis

SET = "set"
"""The rule of a preference that was set by API."""


@dataclass(frozen=True, kw_only=True)
class StoredPreference:
    preference_id: str
    text: str
    rule: str
    normalized: str
    count: int
    since_ms: int
    """When it came into force; 0 while it is only counted."""
    first_ms: int
    last_ms: int


class PreferenceStore:
    def __init__(self, client: Redis, config: PreferencesConfig) -> None:
        def script(name: str) -> Any:
            return client.register_script(files("services.cache").joinpath("scripts", f"{name}.lua").read_text("utf-8"))

        self._client = client
        self._config = config
        self._observe, self._set = script("wishes_observe"), script("wishes_set")

    async def observe(self, keys: UserKeys, request_id: str, found: Sequence[Wish]) -> list[StoredPreference]:
        """Count wishes once for a request; gives all of the user's, those in force first."""
        config = self._config
        wishes = [item for wish in found for item in (wish.wish_id, wish.opposite_id, _said(wish))]
        flat = await self._observe(
            keys=[keys.wishes(), keys.seen()],
            args=[
                request_id.encode(),
                _now_ms(),
                config.ttl_s,
                config.statements,
                config.max_in_force,
                config.max_tracked,
                *wishes,
            ],
        )
        return _in_order(dict(zip(flat[::2], flat[1::2], strict=True)))

    async def all(self, keys: UserKeys) -> list[StoredPreference]:
        return _in_order(cast("dict[bytes, bytes]", await self._client.hgetall(keys.wishes())))

    async def set(self, keys: UserKeys, preference_id: str, text: str) -> StoredPreference:
        """Raises NotFound for an ID that the user does not have, Exhausted when too many are in force."""
        made = preference_id or hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        said = json.dumps({"text": text, "rule": SET, "normalized": ""})
        args = [made.encode(), int(bool(preference_id)), _now_ms(), self._config.ttl_s, self._config.max_in_force, said]
        state, value = await self._set(keys=[keys.wishes()], args=args)
        if state == b"none":
            raise NotFound("PREFERENCE_NOT_FOUND", "this user has no such preference", field="preference_id")
        if state == b"full":
            raise Exhausted(
                "TOO_MANY_PREFERENCES", f"a user may have {self._config.max_in_force} preferences; delete one first"
            )
        return _stored(made, value)

    async def delete(self, keys: UserKeys, preference_id: str) -> int:
        """One preference; gives how many there were."""
        return await self._client.hdel(keys.wishes(), preference_id)

    async def forget(self, keys: UserKeys) -> int:
        """All that is known of a user's preferences; gives how many there were."""
        pipeline = self._client.pipeline(transaction=True)
        pipeline.hlen(keys.wishes())
        pipeline.delete(keys.wishes(), keys.seen())
        return int((await pipeline.execute())[0])


def _said(wish: Wish) -> str:
    return json.dumps({"text": wish.text, "rule": wish.rule, "normalized": wish.normalized})


def _stored(preference_id: str, value: bytes) -> StoredPreference:
    fields = json.loads(value)
    return StoredPreference(
        preference_id=preference_id,
        text=fields["text"],
        rule=fields["rule"],
        normalized=fields["normalized"],
        count=int(fields["count"]),
        since_ms=int(fields["since_ms"]),
        first_ms=int(fields["first_ms"]),
        last_ms=int(fields["last_ms"]),
    )


def _in_order(wishes: dict[bytes, bytes]) -> list[StoredPreference]:
    """By when they came into force, so that a new one comes last; then those that are only counted."""
    stored = [_stored(preference_id.decode(), value) for preference_id, value in wishes.items()]
    return sorted(stored, key=lambda one: (one.since_ms == 0, one.since_ms, one.first_ms, one.preference_id))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
