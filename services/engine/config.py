"""The `engine` section of the configuration."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, PositiveInt, model_validator

from services.engine.healing.config import HealingConfig
from services.engine.modes import Mode
from stagemesh.runtime.config import Section

KvDtype = Literal["bfloat16", "int8"]
WeightFormat = Literal["int4", "int8", "bf16"]


class ConstraintConfig(Section):
    """Bounds of grammars, so that a hostile schema cannot hold up others."""

    max_source_bytes: PositiveInt = 262_144
    """Length of a schema, regular expression, grammar or list of choices."""
    compile_timeout_s: float = Field(default=1.0, gt=0)
    """A grammar that cannot be built within this time, in a process of its own, is refused."""
    compile_memory_mb: int = Field(default=1_024, ge=256)
    """Address space of such a process; a grammar that needs more is refused."""
    compilers: int = Field(default=2, ge=1, le=16)
    """Such processes, and threads that build what passed there. One tenant never has all of them."""
    max_cached_grammars: PositiveInt = 128
    """Compiled grammars that are kept for the next request with the same text."""
    max_lexer_states: PositiveInt = 50_000
    """States of a grammar's lexer, 1 to 2 kB each."""
    max_grammar_symbols: PositiveInt = 100_000
    """Symbols in a grammar's productions."""
    jumps_ahead: bool = True
    """Tokens that a grammar leaves no choice about are taken without asking the model. It never changes an answer.
    Answers with log-probabilities ask the model for each token."""


class SpeculationConfig(Section):
    """Guesses at the next tokens, computed in one step with the last. They change how long an answer takes, never the
    answer."""

    method: Literal["prompt_lookup", "off"] = "prompt_lookup"
    """`prompt_lookup`: what a grammar forces, and what passages of the prompt and the answer go on with, where that
    pays by the measured cost of a step; `off`: one token a step."""
    max_draft_tokens: int = Field(default=16, ge=1, le=64)
    """Guesses for one sequence in one step."""
    progressive: bool = True
    """Where the engine holds `turbo` and `precise` weights, precise answers are drafted by the turbo weights, and the
    precise ones check several tokens in a pass."""


class ProgressivePrecisionConfig(Section):
    """Where the engine holds `standard` and `precise` weights: which tokens of standard answers the precise weights
    choose. Digits are always among them."""

    sensitive_tokens: tuple[str, ...] = ("%", "$", "¥", "€")
    """Tokens that contain one of these texts, or are a part of one."""
    sensitive_file: str = ""
    """More of them, one a line (`precision_sensitive.txt`); read again when it changes. Empty for none."""
    min_margin: float = Field(default=0.25, ge=0)
    """A token whose logit leads the next by less is chosen by the precise weights, whatever it is."""


class WeightFormats(Section):
    """What the `turbo` mode quantizes a model's matrices to, unless its file holds 4- or 8-bit weights already.

    `int4`: a scale and a minimum for each 32 weights; `int8`: a scale for each 32; `bf16`: rounded to bfloat16.
    """

    embedding: WeightFormat = "int8"
    """The embedding, where it is not the output head as well."""
    head: WeightFormat = "int8"
    """The output head; four bits here cost several percent of perplexity."""
    attention: WeightFormat = "int8"
    """Projections to queries, keys and values, and from the attention's output."""
    mlp: WeightFormat = "int4"
    """The gated layers, most of a model's weights."""


class KvStoreConfig(Section):
    """What happens to the KV pages of sequences that have ended: they are kept in the engine's memory and, under the
    lease of a cache service, in the KV Redis (`kv_url`), and loaded when a prompt begins with them again. Whatever
    goes wrong with that costs time, never an answer. Native kernels only."""

    enabled: bool = True
    """Off: pages are reused within the pool alone."""
    format: KvDtype = "bfloat16"
    """How pages are stored. `bfloat16`: exactly. `int8`: half the bytes, rounded once when they are stored, so that an
    answer after a restore may differ from the one without. An engine whose `kv_dtype` is `int8` stores that,
    exactly."""
    host_bytes: int = Field(default=512 * 1024 * 1024, ge=0)
    """Bytes of the engine's own memory for pages that have left the pool; 0 keeps none there."""
    queue_bytes: int = Field(default=256 * 1024 * 1024, ge=0)
    """Bytes of pages that may wait to be stored; beyond them pages are dropped, and computed again when wanted."""
    always_load: bool = False
    """Load pages also where computing them is estimated to be quicker."""
    max_load_ms: float = Field(default=5000.0, gt=0)
    """How long a sequence waits for its pages at most. Loading them takes no longer than computing them would, but
    others may be loaded first."""
    store_timeout_ms: float = Field(default=2000.0, gt=0)
    """What writing 16 pages to the KV Redis may take."""
    breaker_failures: PositiveInt = 3
    """Consecutive failures after which the KV Redis is left alone."""
    breaker_open_ms: float = Field(default=1000.0, gt=0)
    """For how long."""


class ScoreConfig(Section):
    """Bounds of `Score`, which computes how likely given continuations are."""

    max_continuations: PositiveInt = 512
    """Of one call."""
    max_tokens: PositiveInt = 32_768
    """Of all continuations of one call together."""
    max_live: PositiveInt = 2_048
    """Continuations of all calls that run or wait; a call that would go beyond is refused with QUEUE_FULL."""


class AdaptersConfig(Section):
    """LoRA adapters in PEFT's layout, which compute beside the model for the requests that ask for them. Native kernels
    only."""

    load: dict[str, str] = Field(default_factory=dict)
    """Name → folder with `adapter_config.json` and `adapter_model.safetensors`; loaded at the start."""
    folders: tuple[str, ...] | None = None
    """Folders below which adapters may be loaded while the engine runs. By default `adapters` in the state folder; an
    empty list: no adapter may."""
    max_adapters: int = Field(default=16, ge=1, le=32)
    """Names that are loaded at a time."""
    max_mb: float = Field(default=1024.0, gt=0)
    """Memory of all adapters, replaced ones that are still in use included."""
    max_file_mb: float = Field(default=256.0, gt=0)
    """Size of one adapter's file."""
    keep_replaced_s: float = Field(default=10.0, ge=0)
    """How long a replaced generation still serves requests that were prepared for it."""


class IdleConfig(Section):
    """After sustained low load, steps of a few tokens run on one thread; the next larger one on all of them again."""

    enabled: bool = True
    """Native kernels only."""
    after_s: float = Field(default=30.0, gt=0)
    """For how long the load must have been low."""
    max_utilization: float = Field(default=0.1, ge=0, le=1)
    """Part of the time that steps take, up to which the load is low."""


class EngineConfig(Section):
    """One engine process serves one model."""

    listen: str | None = None
    """`host:port`; by default the first of `addresses.engine`."""
    model: str = ""
    """Name or alias of the model; empty for the mesh's default."""
    backend: Literal["auto", "native", "torch"] = "auto"
    """`native`: C++ kernels on 4-, 8- or 16-bit weights, on x86-64 Linux with AVX2; where they did not come compiled, a
    C++ compiler builds them on first use. `torch`: exact in `dtype`, several times slower, needs the extra
    `stagemesh[torch]`. `auto`: native where it can run, else torch where it is installed."""
    reads_device_sensors: bool = True
    """Say how hot the machine's hottest device is, through NVML where there is one (extra `stagemesh[gpu]`); a gateway
    gives a hot engine less work. Switch it off where the devices are not the engine's."""
    modes: tuple[Mode, ...] = Field(default=("standard",), min_length=1)
    """Precisions that the native kernels hold the weights in, each in memory of its own unless two are alike: `turbo`
    (4-bit weights with an 8-bit head), `standard` (8-bit weights), `precise` (float activations, bfloat16 weights).
    A GGUF file's Q4_0, Q4_1 and Q8_0 are taken as they are by all three, in the same memory. PyTorch has `precise`
    alone."""
    default_mode: Mode | None = None
    """The mode of requests that ask for none, one of `modes`; by default the first."""
    turbo_weights: WeightFormats = WeightFormats()
    screens_head: bool = True
    """Whether the native kernels rule out most tokens by half of the head's bytes before they compute logits, where a
    token is chosen and nothing else is asked of the logits. The answer is the same, bit by bit."""
    weight_cache_mb: int = Field(default=20_000, ge=0)
    """How much disk the model folder gives to weights that were quantized when they were loaded; 0 keeps none."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """What weights, activations and KV pages are held in by the torch backend."""
    threads: PositiveInt | Literal["auto"] = "auto"
    """Compute threads; `auto`: one per physical core this process may use."""
    kv_dtype: KvDtype = "bfloat16"
    """What the native kernels hold keys and values in. `int8`: half the memory; each token has a scale in each head."""
    kv_pool_tokens: int = Field(default=32_768, ge=64)
    """Tokens that all sequences together can hold. Memory is taken from the system as pages are first written."""
    context_length: PositiveInt | None = None
    """A shorter context than the model's own."""
    prefill_chunk_size: int = Field(default=512, ge=16)
    """Prompt tokens computed in one step at most."""
    max_step_ms: float = Field(default=60.0, ge=0)
    """What a step with prompt tokens takes at most, by their measured cost: as long at most does a request that comes
    wait for the step under way. Half of it is for prompts in any case, however many sequences decode; 0 keeps chunks
    whole."""
    ttft_targets_ms: tuple[float, float, float, float] = (500.0, 1_500.0, 15_000.0, 60_000.0)
    """What the first token should take for prompts of up to 128, 1,024, 8,192 and more tokens, where the request brings
    no target of its own (`gateway.routes.*.ttft_target_ms`). While 5 % come later, steps and batches become smaller."""
    high_watermark: float = Field(default=0.92, gt=0, le=1)
    """Part of the KV pool that admitting a sequence may fill; the rest is for those that run to grow. Alone, a sequence
    may have it all."""
    max_running: int = Field(default=32, ge=1, le=4096)
    """Sequences in one batch."""
    max_waiting: int = Field(default=256, ge=0)
    """Sequences that wait for a place; what comes on top is refused with QUEUE_FULL."""
    gather_ms: float = Field(default=50.0, ge=0)
    """For how long tokens are gathered into one message to a caller of four or more sequences; 0: a message a step.
    First tokens and ends are sent at once."""
    reattach_grace_s: float = Field(default=5.0, ge=0)
    """How long a sequence outlives its broken call, and a finished one's result is kept."""
    stage_sample_interval: PositiveInt = 16
    """Every how many decode steps the parts of the step are timed."""
    max_output_tokens: PositiveInt | None = None
    """Upper bound of `max_tokens`, and its default; otherwise the context sets it."""
    idle: IdleConfig = IdleConfig()
    constraint: ConstraintConfig = ConstraintConfig()
    score: ScoreConfig = ScoreConfig()
    adapters: AdaptersConfig = AdaptersConfig()
    speculation: SpeculationConfig = SpeculationConfig()
    progressive_precision: ProgressivePrecisionConfig = ProgressivePrecisionConfig()
    kv_store: KvStoreConfig = KvStoreConfig()
    healing: HealingConfig = HealingConfig()

    @model_validator(mode="after")
    def _check_modes(self) -> Self:
        if len(set(self.modes)) < len(self.modes):
            raise ValueError("modes names a mode twice")
        if self.default_mode is not None and self.default_mode not in self.modes:
            raise ValueError(f"default_mode is {self.default_mode}, which is not one of modes")
        return self
