"""AnchorSetService: from messages to stored sets and back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

from google.protobuf.timestamp_pb2 import Timestamp

from services.validator.anchor_loading import AnchorLoading
from stagemesh.api.validator.v1 import anchor_sets_pb2, anchor_sets_pb2_grpc
from stagemesh.runtime.errors import DeadlineExceeded, InvalidRequest, NotFound, Precondition, Unavailable
from stagemesh.runtime.interceptors import Context
from stagemesh.runtime.telemetry import get_logger
from stagemesh.runtime.tenants import check_tenant_id
from stagemesh.validation.anchor_match import Match
from stagemesh.validation.anchors import open_index
from stagemesh.validation.sets.manifest import Manifest, check_set_name
from stagemesh.validation.sets.sets import AnchorSets

DEFAULT_KEYS, MAX_KEYS = 10, 1_000
MAX_LOADS = 2
"""At once in one process; further ones are refused."""
IDLE_S = 60.0
"""How long a load waits for more keys."""
MATCHES = {
    Match.EXACT: anchor_sets_pb2.MATCH_EXACT,
    Match.NEAR: anchor_sets_pb2.MATCH_NEAR,
    Match.AMBIGUOUS: anchor_sets_pb2.MATCH_AMBIGUOUS,
    Match.UNKNOWN: anchor_sets_pb2.MATCH_UNKNOWN,
}

log = get_logger(__name__)


class AnchorSetServicer(anchor_sets_pb2_grpc.AnchorSetServiceServicer):
    """Every method raises InvalidRequest for bad names, Unavailable when the store is away, and Precondition where no
    ledger is configured."""

    def __init__(self, sets: AnchorSets | None) -> None:
        self._given = sets
        self._num_loads = 0

    async def Load(
        self, request_iterator: AsyncIterator[anchor_sets_pb2.LoadRequest], context: Context
    ) -> AsyncGenerator[anchor_sets_pb2.LoadResponse]:
        if self._num_loads >= MAX_LOADS:
            raise Unavailable("ANCHORS_BUSY", "other anchor sets are being loaded; try again", retry_after_ms=5_000)
        self._num_loads += 1
        try:
            first = await _next(request_iterator)
            if first is None or first.WhichOneof("kind") != "begin":
                raise InvalidRequest("INVALID_ANCHOR", "a load begins with `begin`", field="kind")
            loading = AnchorLoading(self._sets, first.begin)
            try:
                while (request := await _next(request_iterator)) is not None:
                    await loading.add(request.keys.keys)
                    progress = anchor_sets_pb2.LoadProgress(keys=loading.num_keys)
                    yield anchor_sets_pb2.LoadResponse(progress=progress)
                manifest = await loading.finish()
            finally:
                loading.close()
        finally:
            self._num_loads -= 1
        log.info("anchor set loaded", set=manifest.name, keys=manifest.keys, generation=manifest.generation)
        yield anchor_sets_pb2.LoadResponse(set=_message(manifest))

    async def List(self, request: anchor_sets_pb2.ListRequest, context: Context) -> anchor_sets_pb2.ListResponse:
        check_tenant_id(request.tenant_id)
        found = await self._sets.store.manifests(request.tenant_id)
        return anchor_sets_pb2.ListResponse(sets=[_message(manifest) for manifest in found])

    async def Show(self, request: anchor_sets_pb2.ShowRequest, context: Context) -> anchor_sets_pb2.ShowResponse:
        manifest = await self._manifest(request.tenant_id, request.name)
        copy = await self._sets.copies.get(request.tenant_id, manifest)
        with self._sets.copies.using(copy) as path:
            count = min(request.max_keys or DEFAULT_KEYS, MAX_KEYS)
            keys = open_index(path).some(count, request.first_key)
        return anchor_sets_pb2.ShowResponse(set=_message(manifest), keys=keys)

    async def Lookup(self, request: anchor_sets_pb2.LookupRequest, context: Context) -> anchor_sets_pb2.LookupResponse:
        manifest = await self._manifest(request.tenant_id, request.name)
        if len(request.key) > self._sets.config.max_key_chars * 4:
            raise InvalidRequest("INVALID_ANCHOR", "the value is longer than any key may be", field="key")
        copy = await self._sets.copies.get(request.tenant_id, manifest)
        with self._sets.copies.using(copy) as path:
            found = open_index(path).lookup(request.key)
        return anchor_sets_pb2.LookupResponse(
            match=MATCHES[found.match], keys=found.keys, generation=manifest.generation
        )

    async def Drop(self, request: anchor_sets_pb2.DropRequest, context: Context) -> anchor_sets_pb2.DropResponse:
        manifest = await self._manifest(request.tenant_id, request.name)
        await self._sets.store.drop(request.tenant_id, manifest.name)
        self._sets.copies.forget(request.tenant_id, manifest.name)
        log.info("anchor set dropped", set=manifest.name)
        return anchor_sets_pb2.DropResponse(set=_message(manifest))

    @property
    def _sets(self) -> AnchorSets:
        if self._given is None:
            raise Precondition("NO_LEDGER", "anchor sets are stored in the ledger Redis, and none is configured here")
        return self._given

    async def _manifest(self, tenant_id: str, name: str) -> Manifest:
        check_tenant_id(tenant_id)
        manifest = await self._sets.store.manifest(tenant_id, check_set_name(name))
        if manifest is None:
            raise NotFound("ANCHOR_SET_NOT_FOUND", f"there is no anchor set {name!r} here", field="name")
        return manifest


async def _next(requests: AsyncIterator[anchor_sets_pb2.LoadRequest]) -> anchor_sets_pb2.LoadRequest | None:
    try:
        async with asyncio.timeout(IDLE_S):
            return await anext(requests, None)
    except TimeoutError:
        raise DeadlineExceeded("DEADLINE_EXCEEDED", f"no keys came within {IDLE_S:.0f} s") from None


def _message(manifest: Manifest) -> anchor_sets_pb2.AnchorSet:
    seconds, milliseconds = divmod(manifest.updated_ms, 1_000)
    return anchor_sets_pb2.AnchorSet(
        name=manifest.name,
        generation=manifest.generation,
        keys=manifest.keys,
        repeated_keys=manifest.repeated_keys,
        key_bytes=manifest.key_bytes,
        stored_bytes=manifest.stored_bytes,
        ignore_case=manifest.ignore_case,
        max_edits=manifest.max_edits,
        updated_at=Timestamp(seconds=seconds, nanos=milliseconds * 1_000_000),
    )
