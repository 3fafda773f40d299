import pytest

from services.gateway.tenants import Tenants
from stagemesh.runtime.errors import Unauthenticated


class Store:
    def __init__(self) -> None:
        self.asked: list[str] = []

    async def lookup(self, api_key: str) -> str | None:
        self.asked.append(api_key)
        return "acme" if api_key == "sk-good" else None


async def test_a_known_key_is_asked_for_once() -> None:
    store = Store()
    tenants = Tenants(store.lookup, allow_dev=False)
    assert (await tenants.authenticate("sk-good", None)).tenant_id == "acme"
    assert (await tenants.authenticate("sk-good", "acme")).tenant_id == "acme"
    assert store.asked == ["sk-good"]


async def test_a_key_that_is_too_long_to_be_one_is_neither_asked_for_nor_remembered() -> None:
    store = Store()
    tenants = Tenants(store.lookup, allow_dev=False)
    with pytest.raises(Unauthenticated):
        await tenants.authenticate("k" * 5_000, None)
    assert not store.asked
