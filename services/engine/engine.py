"""Puts an engine together: model files → weights → runner → core → thread → registry."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from services.engine.adapter import LoadedAdapter
from services.engine.adapter_manifest import AdapterManifest
from services.engine.adapter_store import AdapterStore
from services.engine.backend import load_backend
from services.engine.block_manager import PAGE_SIZE, num_pages_for
from services.engine.checks import make_checks
from services.engine.config import EngineConfig
from services.engine.constraint_compiler import ConstraintCompiler
from services.engine.core import CoreLimits, EngineCore
from services.engine.core_thread import Copied, CoreThread, Loaded, Stop
from services.engine.ending import Ending
from services.engine.grammar_trials import GrammarTrials
from services.engine.healing.healer import make_healer
from services.engine.kernels.native.page_io import PageIo
from services.engine.kv.make_stored_kv import prefetch_job, stored_kv_maker
from services.engine.make_drafting import make_drafting
from services.engine.modes import HeldModes, Mode
from services.engine.native_runner import NativeRunner
from services.engine.page_table import Owner
from services.engine.registry import Registry, RegistryLimits
from services.engine.request import RequestLimits
from services.engine.runner import AdapterSlots, Backend, Runner, Sizes
from services.engine.sampling_params import SamplingParams
from services.engine.scheduling.idle_mode import IdleLimits, IdleMode
from services.engine.scheduling.policy import PolicyLimits
from services.engine.scorer import Scorer
from services.engine.sequence import Sequence
from services.engine.sequence_factory import SequenceFactory
from services.engine.threads import num_physical_cores
from services.engine.updates import StepOutput
from services.engine.vocabulary import Vocabulary
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.models.model_config import TransformerConfig, load_model_config
from stagemesh.models.revision import revision
from stagemesh.models.store import ModelFiles
from stagemesh.models.tokenizer_file import TokenizerFile, load_tokenizer
from stagemesh.runtime.errors import StagemeshError
from stagemesh.runtime.telemetry import get_logger

log = get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """A model in memory, before it serves."""

    identity: common_pb2.ModelIdentity
    config: TransformerConfig
    tokenizer: TokenizerFile
    context_length: int
    num_pages: int
    backend: str
    modes: HeldModes
    runner: Runner
    adapter_slots: AdapterSlots | None
    page_io: PageIo | None
    """Takes KV pages out of the pool and puts them back, where that can be done."""


def load_model(files: ModelFiles, config: EngineConfig) -> LoadedModel:
    """Read the model into memory; seconds. Raises ModelError with a sentence for the operator."""
    started_s = time.monotonic()
    model, tokenizer = load_model_config(files), load_tokenizer(files)
    context_length = min(model.context_length, config.context_length or model.context_length)
    num_pages = num_pages_for(config.kv_pool_tokens)
    sizes = Sizes(
        context_length=context_length,
        num_pages=num_pages,
        num_threads=num_threads_of(config),
        kv_dtype=config.kv_dtype,
    )
    backend = load_backend(files, model, config, sizes)
    modes = HeldModes(default=_default_mode(config, backend), precisions=backend.precisions)
    identity = common_pb2.ModelIdentity(
        model=files.name,
        revision=revision(files),
        tokenizer_hash=tokenizer.tokenizer_hash,
        precision=modes.precisions[modes.default],
        kv_layout=backend.kv_layout,
    )
    log.info(
        "model loaded",
        model=files.name,
        seconds=round(time.monotonic() - started_s, 2),
        backend=backend.name,
        precisions=dict(backend.precisions),
        weight_mb=backend.weight_bytes // 1_000_000,
        max_kv_mb=backend.kv_bytes // 1_000_000,
    )
    return LoadedModel(
        identity=identity,
        config=model,
        tokenizer=tokenizer,
        context_length=context_length,
        num_pages=num_pages,
        backend=backend.name,
        modes=modes,
        runner=backend.runner,
        adapter_slots=backend.adapter_slots,
        page_io=backend.page_io,
    )


def _default_mode(config: EngineConfig, backend: Backend) -> Mode:
    if config.default_mode is not None and config.default_mode in backend.precisions:
        return config.default_mode
    return next(iter(backend.precisions))


class Engine:
    """A loaded model that takes sequences, between `start` and `stop`."""

    registry: Registry
    scorer: Scorer
    _thread: CoreThread

    def __init__(
        self, model: LoadedModel, config: EngineConfig, kv_url: str = "", manifest_path: Path | None = None
    ) -> None:
        """`kv_url`: the KV Redis; empty for none. `manifest_path`: where it is noted which adapters are loaded."""
        self.model = model
        self.config = config
        vocabulary = Vocabulary(
            model.tokenizer.all_token_bytes, model.tokenizer.special_ids, frozenset(model.config.eos_token_ids)
        )
        self.core = EngineCore(
            model.runner,
            vocabulary,
            CoreLimits(
                num_pages=model.num_pages,
                max_running=config.max_running,
                prefill_chunk_size=config.prefill_chunk_size,
                stage_sample_interval=config.stage_sample_interval,
                policy=policy_limits(config),
            ),
            make_drafting(config.speculation, model.runner, vocabulary),
            make_checks(config.progressive_precision, model.runner, vocabulary),
            stored_kv_maker(config.kv_store, model.identity, model.page_io, model.runner.zero, kv_url),
            make_healer(config.healing, model.runner),
        )
        self.core.idle = idle_mode(config, model.runner)
        self._limits = RequestLimits(
            vocab_size=model.config.vocab_size,
            max_total_tokens=min(model.context_length, model.num_pages * PAGE_SIZE),
            max_output_tokens=config.max_output_tokens,
            jumps_ahead=config.constraint.jumps_ahead,
        )
        num_tokens = max(model.config.vocab_size, model.tokenizer.vocab_size)
        compiler = ConstraintCompiler(model.tokenizer, num_tokens, config.constraint)
        manifest = AdapterManifest(manifest_path)
        self.adapters = AdapterStore(model.adapter_slots, model.config, model.identity, config.adapters, manifest)
        self.adapters.load_first()
        self._factory = SequenceFactory(
            model.identity,
            model.modes,
            vocabulary,
            self._limits,
            compiler,
            GrammarTrials(model.tokenizer, num_tokens, config.constraint),
            config.constraint.compilers,
            self.adapters,
        )
        _warm_up(self.core, model.config)

    def start(self) -> None:
        """Begin to compute; call on the event loop that will use the registry."""
        loop = asyncio.get_running_loop()
        self._thread = CoreThread(self.core, lambda output: _post(loop, self._on_output, output))
        self.registry = Registry(
            self._factory,
            self._thread.send,
            RegistryLimits(
                max_live=self.config.max_running + self.config.max_waiting, result_grace_s=self.config.reattach_grace_s
            ),
        )
        self.scorer = Scorer(self._thread.send, self._limits, self.config.score)
        self.registry.load = self.core.load()
        if self.core.stored is not None:
            self.core.stored.start(
                lambda job: self._thread.send(Loaded(job)), lambda job: self._thread.send(Copied(job))
            )
        self.core.healer.watchdog.start()
        self._thread.start()

    def _on_output(self, output: StepOutput) -> None:
        self.registry.on_output(output)
        self.scorer.on_output(output)
        self.adapters.sweep()

    async def score(self, request: engine_pb2.ScoreRequest, deadline_s: float) -> engine_pb2.ScoreResponse:
        """Score given continuations by `deadline_s` on the monotonic clock. Raises StagemeshError."""
        self.registry.check_open()
        by = self._factory.computed_by(request.policy, request.model)
        response = await self.scorer.score(request, by, deadline_s)
        response.model.CopyFrom(self._factory.identity(by))
        return response

    async def load_adapter(self, name: str, path: str, generation: int) -> LoadedAdapter:
        """As `AdapterStore.load`."""
        adapter = await self.adapters.load(name, path, generation)
        self.registry.note_change()
        return adapter

    async def unload_adapter(self, name: str, timeout_s: float) -> int:
        """Have no more sequences begin with an adapter; gives how many still ran with it after `timeout_s`."""
        retired = self.adapters.retire(name)
        self.registry.note_change()
        return await self.adapters.wait_freed(retired, timeout_s)

    async def warm_up(self) -> None:
        """Start what the first constraint would have to wait for."""
        await self._factory.warm_up()

    def prefetch(self, prefetch: engine_pb2.Prefetch) -> None:
        """Have stored pages brought near. Never an error: what is not near when it is wanted is loaded then."""
        if self.core.stored is not None and (job := prefetch_job(prefetch, self.model.identity)) is not None:
            self.core.stored.prefetch(job)

    async def stop(self, error: StagemeshError) -> None:
        """End what still runs with ABORT and `error`, and the thread."""
        self.registry.end_starting(error)
        self._thread.send(Stop(Ending(common_pb2.FINISH_REASON_ABORT, error=error)))
        await asyncio.to_thread(self._thread.join, 10.0)
        self.core.healer.watchdog.stop()
        if self.core.stored is not None and not await asyncio.to_thread(self.core.stored.close):
            log.warning("pages that were to be stored are lost")
        await self.registry.wait_idle(1.0)
        await self._factory.stop()

    def close(self) -> None:
        self.registry.close()
        self._factory.close()


def _post(loop: asyncio.AbstractEventLoop, take: Callable[[StepOutput], None], output: StepOutput) -> None:
    loop.call_soon_threadsafe(take, output)


def idle_mode(config: EngineConfig, runner: Runner) -> IdleMode | None:
    """None where it is off, or where there are no threads to spare."""
    threads = num_threads_of(config)
    if not config.idle.enabled or threads == 1 or not isinstance(runner, NativeRunner):
        return None
    limits = IdleLimits(after_s=config.idle.after_s, max_utilization=config.idle.max_utilization)
    return IdleMode(limits, threads, runner.decoder.limit_threads, time.monotonic())


def num_threads_of(config: EngineConfig) -> int:
    return num_physical_cores() if config.threads == "auto" else config.threads


def policy_limits(config: EngineConfig) -> PolicyLimits:
    """The scheduler's bounds, in seconds."""
    return PolicyLimits(
        max_step_s=config.max_step_ms / 1000,
        ttft_targets_s=tuple(target / 1000 for target in config.ttft_targets_ms),
        high_watermark=config.high_watermark,
    )


def _warm_up(core: EngineCore, config: TransformerConfig) -> None:
    """Run one prompt and one decode step, so that the first caller does not pay for what is done once."""
    prompt = [config.bos_token_id or 0] * 2
    core.add(
        Sequence(
            sequence_id="warm-up",
            owner=Owner("", b""),
            tokens=prompt,
            num_prompt=len(prompt),
            num_delivered=0,
            params=SamplingParams(temperature=0.0, ignore_eos=True),
            max_total_tokens=len(prompt) + 2,
        )
    )
    while core.has_work():
        output = core.step()
    (finished,) = [update.finished for update in output.updates if update.finished]
    if finished.ending.error is not None:
        raise finished.ending.error
    core.check_integrity()
