"""What all services of a mesh share: addresses, servers, models."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, model_validator

from stagemesh.runtime.config import Section
from stagemesh.runtime.config_problems import KeyProblem
from stagemesh.runtime.faults.rule import FaultRule

DEFAULT_MODEL = "smollm2-135m-instruct"


class Addresses(Section):
    """Where each service listens, as `host:port`. A host name with several addresses stands for several replicas."""

    gateway: str = "127.0.0.1:50051"
    """The public gRPC API; workers reach it there."""
    tokenizer: tuple[str, ...] = ("127.0.0.1:50052",)
    """Replicas of the tokenizer."""
    engine: tuple[str, ...] = ("127.0.0.1:50053",)
    """Replicas of the engine."""
    cache: tuple[str, ...] = ("127.0.0.1:50054",)
    """Replicas of the cache."""
    validator: tuple[str, ...] = ("127.0.0.1:50055",)
    """Replicas of the validator."""
    corrector: tuple[str, ...] = ("127.0.0.1:50056",)
    """Replicas of the corrector."""
    candidate_engine: tuple[str, ...] = ()
    """Engines that run the shadow candidate; they never answer a caller."""


class SamplingDefaults(Section):
    """What a request that does not say otherwise is sampled with; an absent value is the neutral one."""

    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = Field(default=None, ge=0)
    min_p: float | None = Field(default=None, ge=0, le=1)
    repetition_penalty: float | None = Field(default=None, gt=0, le=10)


class ModelConfig(Section):
    """One model under a name of its own."""

    source: str
    """`builtin`, `hf:ORG/NAME`, a folder in Hugging Face layout, or a `.gguf` file. A relative path counts from the
    folder in which the command is given."""
    revision: str | None = None
    """Branch, tag or commit for `hf:` sources."""
    sampling: SamplingDefaults = SamplingDefaults()
    """Defaults for requests to this model, e.g. what its authors recommend."""


BUILTIN = ModelConfig(source="builtin", sampling=SamplingDefaults(temperature=0, repetition_penalty=1.1))
"""The default model. Drawn at a temperature, so small a model rambles; without a penalty it repeats itself."""


class ShadowConfig(Section):
    """A candidate model that receives a copy of all traffic and answers nobody."""

    candidate: str | None = None
    """Name of the candidate model; none switches shadowing off."""
    candidate_settings: dict[str, bool | int | float | str] = Field(default_factory=dict)
    """Keys of the `engine` section that differ on the candidate's engine; `stagemesh up` passes them on."""
    max_buffered_events: int = Field(default=1000, ge=1)
    """Events that wait in the gateway while the ledger is slow; what comes on top is dropped and counted."""
    max_outbox_events: int = Field(default=20_000, ge=1)
    """Events that wait in the ledger while the differ is away; what comes on top is dropped and counted."""


class MeshConfig(Section):
    environment: Literal["development", "production"] = "development"
    """`production` refuses faults on purpose, however they are asked for."""
    faults: tuple[FaultRule, ...] = ()
    """Faults on purpose, for rehearsals: each a `stage` and a `kind`, and where needed `rate`, `times`, `ms`, `seed`,
    `layer`. Refused where `environment` is `production`."""
    state_dir: Path | None = None
    """Folder for logs, embedded servers' data and SQLite files; set by `stagemesh up`."""
    log_level: str = Field(default="INFO", pattern="^(DEBUG|INFO|WARNING|ERROR)$")
    """Least important lines that are logged: DEBUG, INFO, WARNING or ERROR."""
    log_prompts: bool = False
    """Write prompts and answers to the logs."""
    mesh_token: SecretStr = SecretStr("")
    """Shared secret that internal calls must carry; empty switches the check off (private networks only)."""
    max_message_bytes: int = Field(default=32 * 1024 * 1024, ge=65_536)
    """gRPC transport limit at both ends; the gateway's `max_request_bytes` is the limit that callers meet."""
    drain_grace_s: float = Field(default=10.0, ge=0)
    """How long a service that is told to stop may finish its work."""

    addresses: Addresses = Addresses()

    redis_url: str = ""
    """One Redis for both uses below."""
    ledger_url: str = ""
    """Redis with append-only file and no eviction: ledger, outbox, sessions, tenants."""
    kv_url: str = ""
    """Redis (7 or later, one server) with bounded memory and no eviction of its own, for KV pages."""
    kafka_bootstrap: str = ""
    """`host:port[,host:port]` of a Kafka-protocol broker."""
    kafka_topic_prefix: str = ""
    """Put before each topic name, so that several meshes can share a broker."""
    kafka_settings: dict[str, str | int | bool] = Field(default_factory=dict)
    """Further settings of the Kafka clients by librdkafka's names, e.g. for TLS and SASL."""

    model_dir: Path | None = None
    """Folder of pulled models; none: `stagemesh/models` below the user's cache folder."""
    models: dict[str, ModelConfig] = Field(default_factory=dict)
    """Known models by name, each with `source` and, where needed, `revision` and `sampling`. The default model is known
    even where the file names others only."""
    aliases: dict[str, str] = Field(default_factory=dict)
    """Other names for models, e.g. `gpt-4o-mini: smollm2-135m-instruct`."""
    default_model: str = DEFAULT_MODEL
    """The model of requests that name none."""
    serve: dict[str, int] = Field(default_factory=dict)
    """Engines to start per model, the default model's among them; empty: one for the default model."""
    shadow: ShadowConfig = ShadowConfig()

    @model_validator(mode="after")
    def _complete(self) -> MeshConfig:
        if self.faults and self.environment == "production":
            raise KeyProblem(("faults",), "are refused where `environment` is `production`")
        models = {DEFAULT_MODEL: BUILTIN, **self.models}
        serve = self.serve or {self.default_model: 1}
        for owner, name in (
            (("default_model",), self.default_model),
            *((("aliases", alias), target) for alias, target in self.aliases.items()),
            *((("serve", name), name) for name in serve),
            *(((("shadow", "candidate"), self.shadow.candidate),) if self.shadow.candidate else ()),
        ):
            if name not in models:
                raise KeyProblem(
                    owner, f"names the model {name!r}, which `models` does not define ({', '.join(sorted(models))})"
                )
        if self.default_model not in serve:
            raise KeyProblem(
                ("serve",), f"leaves out the default model {self.default_model!r}; add it, or set default_model"
            )
        object.__setattr__(self, "models", models)
        object.__setattr__(self, "serve", serve)
        object.__setattr__(self, "ledger_url", self.ledger_url or self.redis_url)
        object.__setattr__(self, "kv_url", self.kv_url or self.redis_url)
        return self

    def resolve_model(self, name: str) -> str | None:
        """The model behind a name or alias; the default model for an empty name; None if unknown."""
        name = name or self.default_model
        name = self.aliases.get(name, name)
        return name if name in self.models else None
