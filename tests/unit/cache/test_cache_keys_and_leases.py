"""Keys cannot be forged by what IDs contain, and leases say what was true when they were given."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.cache.encoding import pack_messages, pack_tokens, unpack_tokens
from services.cache.keys import TenantKeys, netstrings
from services.cache.kv_lookup import chain
from services.cache.lease import LeaseStamp, parse_lease_id, salt_of
from stagemesh.api.common.v1.common_pb2 import ChatMessage, ChatMessages, KvLease, ModelIdentity
from stagemesh.runtime.errors import InvalidRequest
from stagemesh.runtime.kv_keys import adapter_label, chain_key, page_digests

AWKWARD = st.text(alphabet=st.sampled_from("a1:,{}\n\0林"), max_size=6)


@given(st.lists(AWKWARD, max_size=4), st.lists(AWKWARD, max_size=4))
def test_netstrings_are_equal_only_for_equal_parts(first: list[str], second: list[str]) -> None:
    same = netstrings(*(part.encode() for part in first)) == netstrings(*(part.encode() for part in second))
    assert same == (first == second)


@given(st.tuples(AWKWARD, AWKWARD), st.tuples(AWKWARD, AWKWARD))
def test_two_sessions_share_a_key_only_if_tenant_and_id_are_equal(a: tuple[str, str], b: tuple[str, str]) -> None:
    key_a, key_b = (TenantKeys(tenant, 1).session(session) for tenant, session in (a, b))
    assert (key_a == key_b) == (a == b)


def test_keys_of_two_kinds_and_two_epochs_differ() -> None:
    keys = TenantKeys("t", 1)
    names = [keys.session("x"), keys.turns("x"), keys.seen("x"), keys.gone("x"), keys.user("x"), keys.gone_user("x")]
    assert len({*names, TenantKeys("t", 2).session("x")}) == 7


@given(st.lists(st.integers(0, 2**32 - 1)))
def test_tokens_survive_packing(token_ids: list[int]) -> None:
    packed = pack_tokens(token_ids)
    assert len(packed) == 4 * len(token_ids)
    assert list(unpack_tokens(packed)) == token_ids


def test_tokens_are_little_endian() -> None:
    assert pack_tokens([1, 0x01020304]) == bytes([1, 0, 0, 0, 4, 3, 2, 1])


def test_packed_messages_in_a_row_are_all_of_them_together() -> None:
    messages = [ChatMessage(role="user", content="你好\0"), ChatMessage(role="assistant", content="", name="n")]
    first, second = pack_messages(messages), pack_messages(messages[:1])
    assert first[:4] == bytes([2, 0, 0, 0])
    assert list(ChatMessages.FromString(first[4:] + second[4:]).messages) == [*messages, messages[0]]
    assert pack_messages([]) == b""


def test_a_lease_id_tells_what_was_true_when_it_was_given() -> None:
    stamp = LeaseStamp(epoch=1_700_000_000_000, gone=2, gone_user=3)
    assert parse_lease_id(stamp.new_id()) == stamp
    assert stamp.new_id() != stamp.new_id()
    assert parse_lease_id("") is None


@pytest.mark.parametrize(
    "lease_id", ["x", "1.2.3", "1.2.3.", "1.2.3." + "g" * 36, "١.2.3." + "a" * 36, "1.2.3." + "a" * 36 + "\n"]
)
def test_a_made_up_lease_id_is_refused(lease_id: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_lease_id(lease_id)
    assert caught.value.field == "lease_id"


def test_a_salt_depends_on_secret_epoch_tenant_and_model() -> None:
    model = ModelIdentity(model="m", revision="r")
    salts = {
        salt_of(b"secret", 1, "t", model),
        salt_of(b"other", 1, "t", model),
        salt_of(b"secret", 2, "t", model),
        salt_of(b"secret", 1, "u", model),
        salt_of(b"secret", 1, "t", ModelIdentity(model="mr")),
    }
    assert len(salts) == 5


def test_the_names_of_pages_with_an_adapter_are_the_engines_and_nobody_elses() -> None:
    tokens = list(range(40))

    def names(**adapter: object) -> list[bytes]:
        model = ModelIdentity(model="m", precision="q8_0", **adapter)  # type: ignore[arg-type]
        lease = KvLease(public_salt=b"public", public_tokens=16)
        return chain("tenant", model, lease, salt_of(b"secret", 1, "tenant", model), tokens)

    red = {"adapter": "red", "adapter_generation": 2, "adapter_revision": "aa"}
    others = [names(), names(**red), names(**{**red, "adapter_generation": 3}), names(**{**red, "adapter": "blue"})]
    others.append(names(**{**red, "adapter_revision": "bb"}))
    assert len({name for each in others for name in each}) == 2 * len(others), "the public prefix is not shared either"
    model = ModelIdentity(model="m", precision="q8_0", **red)  # type: ignore[arg-type]
    key = chain_key(salt_of(b"secret", 1, "tenant", model), "tenant", "q8_0", adapter_label("red", 2, "aa"))
    public = list(page_digests(chain_key(b"public", "", "q8_0", adapter_label("red", 2, "aa")), tokens[:16]))
    assert names(**red) == [*public, *page_digests(key, tokens[16:], public[0])]
