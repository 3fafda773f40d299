"""PreferenceService: from messages to wishes and back."""

from __future__ import annotations

from google.protobuf.timestamp_pb2 import Timestamp

from services.cache.config import CacheConfig
from services.cache.limits import check_id
from services.cache.preferences.hostile import hostility
from services.cache.preferences.keys import UserKeys
from services.cache.preferences.recognizer import one_line, wishes
from services.cache.preferences.store import PreferenceStore, StoredPreference
from services.cache.redis_guard import RedisGuard
from stagemesh.api.cache.v1 import preferences_pb2, preferences_pb2_grpc
from stagemesh.runtime.errors import InvalidRequest
from stagemesh.runtime.interceptors import Context
from stagemesh.runtime.telemetry import get_logger

MAX_TEXTS = 16
MAX_GIVEN = 4
"""How much longer than a preference its text may come, white space and invisible characters included."""

log = get_logger(__name__)


class PreferenceServicer(preferences_pb2_grpc.PreferenceServiceServicer):
    """Every method raises InvalidRequest for bad IDs and Unavailable when the store is away or slow."""

    def __init__(self, store: PreferenceStore, guard: RedisGuard, config: CacheConfig) -> None:
        self._store = store
        self._guard = guard
        self._config = config
        self._lookup_s = config.redis_budget_ms / 1000
        self._change_s = config.commit_budget_ms / 1000

    async def Observe(
        self, request: preferences_pb2.ObserveRequest, context: Context
    ) -> preferences_pb2.ObserveResponse:
        keys = self._keys(request.tenant_id, request.user_id)
        request_id = check_id(request.request_id, "request_id", self._config)
        max_chars = self._config.preferences.max_chars
        found = [wish for text in request.texts[:MAX_TEXTS] for wish in wishes(text, max_chars)]
        distinct = list({wish.wish_id: wish for wish in found}.values())
        stored = await self._guard.call(self._store.observe(keys, request_id, distinct), self._lookup_s)
        return preferences_pb2.ObserveResponse(preferences=[_preference(one) for one in stored if one.since_ms])

    async def ListPreferences(
        self, request: preferences_pb2.ListPreferencesRequest, context: Context
    ) -> preferences_pb2.ListPreferencesResponse:
        keys = self._keys(request.tenant_id, request.user_id)
        stored = await self._guard.call(self._store.all(keys), self._change_s)
        return preferences_pb2.ListPreferencesResponse(preferences=[_preference(one) for one in stored])

    async def SetPreference(
        self, request: preferences_pb2.SetPreferenceRequest, context: Context
    ) -> preferences_pb2.SetPreferenceResponse:
        keys = self._keys(request.tenant_id, request.user_id)
        preference_id = check_id(request.preference_id, "preference_id", self._config, required=False)
        text = self._checked(request.text)
        stored = await self._guard.call(self._store.set(keys, preference_id, text), self._change_s)
        return preferences_pb2.SetPreferenceResponse(preference=_preference(stored))

    async def DeletePreference(
        self, request: preferences_pb2.DeletePreferenceRequest, context: Context
    ) -> preferences_pb2.DeletePreferenceResponse:
        keys = self._keys(request.tenant_id, request.user_id)
        if request.preference_id:
            preference_id = check_id(request.preference_id, "preference_id", self._config)
            erased = await self._guard.call(self._store.delete(keys, preference_id), self._change_s)
        else:
            erased = await self._guard.call(self._store.forget(keys), self._change_s)
        log.info("preferences deleted", preferences=erased)
        return preferences_pb2.DeletePreferenceResponse(preferences=erased)

    def _keys(self, tenant_id: str, user_id: str) -> UserKeys:
        return UserKeys(check_id(tenant_id, "tenant_id", self._config), check_id(user_id, "user_id", self._config))

    def _checked(self, given: str) -> str:
        """The text in one line. Raises InvalidRequest for one that is empty, too long or more than a wish."""
        limit = self._config.preferences.max_chars
        text = one_line(given) if len(given) <= MAX_GIVEN * limit else ""
        if not text or len(text) > limit:
            raise InvalidRequest(
                "INVALID_PREFERENCE", f"a preference is a sentence of 1 to {limit} characters", field="text"
            )
        if reason := hostility(given) or hostility(text):
            raise InvalidRequest("PREFERENCE_REFUSED", f"this is no preference: it {reason}", field="text")
        return text


def _preference(stored: StoredPreference) -> preferences_pb2.Preference:
    return preferences_pb2.Preference(
        preference_id=stored.preference_id,
        text=stored.text,
        count=stored.count,
        in_force=stored.since_ms > 0,
        rule=stored.rule,
        normalized=stored.normalized,
        first_stated_at=_timestamp(stored.first_ms),
        last_stated_at=_timestamp(stored.last_ms),
    )


def _timestamp(unix_ms: int) -> Timestamp:
    return Timestamp(seconds=unix_ms // 1000, nanos=unix_ms % 1000 * 1_000_000)
