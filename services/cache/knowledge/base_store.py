"""Knowledge bases in Redis: manifests, and the files of their indexes in parts.

Every method is a few Redis commands, to be called through `RedisGuard`; it raises redis-py's errors.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Any, cast

from redis.exceptions import OutOfMemoryError

from services.cache.knowledge.keys import ALL_BASES, BaseKeys
from services.cache.knowledge.manifest import IndexFile, Manifest, missing, pack, unpack
from stagemesh.runtime.errors import Exhausted, Unavailable
from stagemesh.runtime.redis_client import Redis

LOCK_MS = 30_000
UNPUBLISHED_TTL_S = 3_600
"""Parts that a sync has stored and not published are gone after this time."""
REPLACED_TTL_S = 300
"""Parts of the version before stay so long, for processes that are reading it."""


class BaseStore:
    def __init__(self, client: Redis) -> None:
        def script(name: str) -> Any:
            return client.register_script(files("services.cache").joinpath("scripts", f"{name}.lua").read_text("utf-8"))

        self._client = client
        self._publish, self._release = script("kb_publish"), script("kb_release")

    async def manifest(self, keys: BaseKeys) -> Manifest | None:
        return unpack(cast("dict[bytes, bytes]", await self._client.hgetall(keys.base())))

    async def version(self, keys: BaseKeys) -> int:
        """0 where there is no such base."""
        return int(await self._client.hget(keys.base(), "version") or 0)

    async def names(self, tenant_id: str) -> list[str]:
        names = cast("set[bytes]", await self._client.smembers(BaseKeys(tenant_id, "").bases()))
        return sorted(name.decode() for name in names)

    async def lock(self, keys: BaseKeys) -> str:
        """The token of a lock on the base for LOCK_MS. Raises Unavailable while another one holds it."""
        token = secrets.token_hex(16)
        if not await self._client.set(keys.lock(), token, nx=True, px=LOCK_MS):
            left_ms = int(await self._client.pttl(keys.lock()))
            raise Unavailable(
                "KNOWLEDGE_BUSY",
                f"another sync of this knowledge base runs, or broke off; its lock ends within {LOCK_MS // 1000} s",
                retry_after_ms=min(max(left_ms, 1_000), LOCK_MS),
            )
        return token

    async def prolong(self, keys: BaseKeys, token: str) -> None:
        """Raises Unavailable when the lock is another one's by now."""
        if not await self._release(keys=[keys.lock()], args=[token, LOCK_MS]):
            raise _lost()

    async def unlock(self, keys: BaseKeys, token: str) -> None:
        await self._release(keys=[keys.lock()], args=[token, 0])

    async def put_part(self, keys: BaseKeys, file: IndexFile, number: int, data: bytes) -> None:
        """Raises Exhausted when Redis has no memory left for it."""
        try:
            await self._client.set(keys.part(file.sha256, number), data, ex=UNPUBLISHED_TTL_S)
        except OutOfMemoryError:
            raise Exhausted(
                "KNOWLEDGE_STORE_FULL", "the ledger Redis has no memory left for this; drop a base or give it more"
            ) from None

    async def get_part(self, keys: BaseKeys, file: IndexFile, number: int) -> bytes | None:
        return cast("bytes | None", await self._client.get(keys.part(file.sha256, number)))

    async def publish(
        self,
        keys: BaseKeys,
        token: str,
        before: Manifest | None,
        after: Manifest,
        new: Sequence[IndexFile],
        max_bases: int,
    ) -> None:
        """Make `after` what is searched; `new` are those of its files that were just put.

        Raises Unavailable when the lock or a part was lost, Exhausted when the tenant has too many bases.
        """
        new_parts = _parts(keys, new)
        old_parts = _parts(keys, missing(before.files if before else (), after.files))
        fields = [item for pair in pack(after).items() for item in pair]
        version = before.version if before else 0
        state = await self._publish(
            keys=[keys.base(), keys.bases(), keys.lock(), *new_parts, *old_parts],
            args=[token, version, max_bases, keys.name, len(new_parts), REPLACED_TTL_S, *fields],
        )
        if state == b"full":
            raise Exhausted("TOO_MANY_BASES", f"this tenant has {max_bases} knowledge bases; drop one first")
        if state != b"ok":
            raise _lost()
        await self._client.sadd(ALL_BASES, _member(keys))

    async def all_bases(self) -> list[BaseKeys]:
        """The bases of all tenants, for a process that starts."""
        return [BaseKeys(*json.loads(member)) for member in sorted(await self._client.smembers(ALL_BASES))]

    async def drop(self, keys: BaseKeys) -> Manifest | None:
        """Erase a base; gives what it was. Raises Unavailable while it is being synced."""
        token = await self.lock(keys)
        try:
            found = await self.manifest(keys)
            pipeline = self._client.pipeline(transaction=True)
            pipeline.srem(keys.bases(), keys.name)
            pipeline.unlink(keys.base(), *_parts(keys, found.files if found else ()))
            await pipeline.execute()
            await self._client.srem(ALL_BASES, _member(keys))
        finally:
            await self.unlock(keys, token)
        return found


def _parts(keys: BaseKeys, of: Iterable[IndexFile]) -> Sequence[bytes]:
    return [keys.part(file.sha256, number) for file in of for number in range(file.num_parts)]


def _member(keys: BaseKeys) -> str:
    return json.dumps([keys.tenant_id, keys.name])


def _lost() -> Unavailable:
    return Unavailable("KNOWLEDGE_BUSY", "another sync of this knowledge base came between", retry_after_ms=2_000)
