"""The services that the gateway calls."""

from __future__ import annotations

from dataclasses import dataclass

import grpc

from services.gateway.breakers import StageBreakers
from services.gateway.canaries import canaries
from services.gateway.config import BreakersConfig
from services.gateway.detokenizer import DetokenizerLink
from services.gateway.engines import Engines
from services.gateway.passage_tokens import PassageTokens
from services.gateway.placement import SessionEngines
from services.gateway.prefix_engines import PrefixEngines
from stagemesh.api.cache.v1 import cache_pb2_grpc, knowledge_pb2_grpc, preferences_pb2_grpc
from stagemesh.api.corrector.v1 import corrector_pb2_grpc
from stagemesh.api.tokenizer.v1 import tokenizer_pb2_grpc
from stagemesh.api.validator.v1 import validator_pb2_grpc
from stagemesh.runtime.channel import dial
from stagemesh.runtime.mesh_config import MeshConfig

DEFAULT_BREAKERS = BreakersConfig()


@dataclass(frozen=True, kw_only=True)
class Peers:
    tokenizer: tokenizer_pb2_grpc.TokenizerServiceStub
    detokenizer: DetokenizerLink
    cache: cache_pb2_grpc.CacheServiceStub
    knowledge: knowledge_pb2_grpc.KnowledgeServiceStub
    preferences: preferences_pb2_grpc.PreferenceServiceStub
    passage_tokens: PassageTokens
    validator: validator_pb2_grpc.ValidatorServiceStub
    corrector: corrector_pb2_grpc.CorrectorServiceStub
    engines: Engines
    sessions: SessionEngines
    prefixes: PrefixEngines
    breakers: StageBreakers
    channels: tuple[grpc.aio.Channel, ...]

    async def close(self) -> None:
        await self.breakers.close()
        await self.detokenizer.close()
        await self.engines.close()
        for channel in self.channels:
            await channel.close()


async def connect(config: MeshConfig, breakers: BreakersConfig = DEFAULT_BREAKERS) -> Peers:
    """Lazy channels to all services, and links to all engines."""
    addresses, limit = config.addresses, config.max_message_bytes
    tokenizer, cache = (
        dial(addresses.tokenizer, max_message_bytes=limit),
        dial(addresses.cache, max_message_bytes=limit),
    )
    validator = dial(addresses.validator, max_message_bytes=limit)
    corrector = dial(addresses.corrector, max_message_bytes=limit)
    tokenizer_stub = tokenizer_pb2_grpc.TokenizerServiceStub(tokenizer)
    channels = {"tokenize": tokenizer, "cache": cache, "validate": validator, "correct": corrector}
    engines = Engines(addresses.engine, max_message_bytes=limit, breaker=breakers.of("engine"))
    await engines.start()
    return Peers(
        tokenizer=tokenizer_stub,
        detokenizer=DetokenizerLink(tokenizer_stub),
        cache=cache_pb2_grpc.CacheServiceStub(cache),
        knowledge=knowledge_pb2_grpc.KnowledgeServiceStub(cache),
        preferences=preferences_pb2_grpc.PreferenceServiceStub(cache),
        passage_tokens=PassageTokens(tokenizer_stub),
        validator=validator_pb2_grpc.ValidatorServiceStub(validator),
        corrector=corrector_pb2_grpc.CorrectorServiceStub(corrector),
        engines=engines,
        sessions=SessionEngines(),
        prefixes=PrefixEngines(),
        breakers=StageBreakers(breakers, channels, canaries(channels, config.default_model)),
        channels=(tokenizer, cache, validator, corrector),
    )
