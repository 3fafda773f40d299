"""RuleSetService: from messages to stored rules and back."""

from __future__ import annotations

from stagemesh.api.validator.v1 import rule_sets_pb2, rule_sets_pb2_grpc
from stagemesh.runtime.errors import InvalidRequest, NotFound, Precondition
from stagemesh.runtime.interceptors import Context
from stagemesh.runtime.telemetry import get_logger
from stagemesh.runtime.tenants import check_tenant_id
from stagemesh.validation.checker import Checker
from stagemesh.validation.constraint import Constraint
from stagemesh.validation.sets.manifest import check_set_name
from stagemesh.validation.sets.rule_store import demands_in, names_stored
from stagemesh.validation.sets.sets import AnchorSets, with_sets

log = get_logger(__name__)


class RuleSetServicer(rule_sets_pb2_grpc.RuleSetServiceServicer):
    """Every method raises InvalidRequest for bad names, Unavailable when the store is away, and Precondition where no
    ledger is configured."""

    def __init__(self, checker: Checker, sets: AnchorSets | None) -> None:
        self._checker, self._given = checker, sets

    async def PutRules(
        self, request: rule_sets_pb2.PutRulesRequest, context: Context
    ) -> rule_sets_pb2.PutRulesResponse:
        """Raises InvalidRequest for rules that cannot be applied, for none, and for those that name others."""
        check_tenant_id(request.tenant_id)
        check_set_name(request.set.name)
        demands = demands_in(request.set)
        if not demands:
            raise InvalidRequest("INVALID_RULE", "a set needs at least one rule", field="rules")
        if names_stored(demands):
            raise InvalidRequest("INVALID_RULE", "stored rules cannot name other stored ones", field="rules")
        async with with_sets(self._sets, request.tenant_id, demands) as resolved:
            await self._checker.check(Constraint(), resolved, request.tenant_id)
        stored = await self._sets.rules.put(request.tenant_id, request.set, self._sets.config.max_sets)
        log.info("rules stored", set=stored.name, rules=len(demands))
        return rule_sets_pb2.PutRulesResponse(set=stored)

    async def ListRules(
        self, request: rule_sets_pb2.ListRulesRequest, context: Context
    ) -> rule_sets_pb2.ListRulesResponse:
        check_tenant_id(request.tenant_id)
        return rule_sets_pb2.ListRulesResponse(sets=await self._sets.rules.all(request.tenant_id))

    async def ShowRules(
        self, request: rule_sets_pb2.ShowRulesRequest, context: Context
    ) -> rule_sets_pb2.ShowRulesResponse:
        return rule_sets_pb2.ShowRulesResponse(set=await self._stored(request.tenant_id, request.name))

    async def DropRules(
        self, request: rule_sets_pb2.DropRulesRequest, context: Context
    ) -> rule_sets_pb2.DropRulesResponse:
        stored = await self._stored(request.tenant_id, request.name)
        await self._sets.rules.drop(request.tenant_id, request.name)
        log.info("rules dropped", set=request.name)
        return rule_sets_pb2.DropRulesResponse(set=stored)

    async def _stored(self, tenant_id: str, name: str) -> rule_sets_pb2.RuleSet:
        check_tenant_id(tenant_id)
        stored = await self._sets.rules.get(tenant_id, check_set_name(name))
        if stored is None:
            raise NotFound("RULE_SET_NOT_FOUND", f"there are no stored rules {name!r} here", field="name")
        return stored

    @property
    def _sets(self) -> AnchorSets:
        if self._given is None:
            raise Precondition("NO_LEDGER", "rules are stored in the ledger Redis, and none is configured here")
        return self._given
