"""An engine on a real socket, with a tiny random model or the default one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from services.engine.config import EngineConfig
from services.engine.engine import Engine, LoadedModel, load_model
from services.engine.servicer import EngineServicer
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from stagemesh.models.store import ModelFiles
from stagemesh.runtime.errors import Unavailable
from stagemesh.runtime.mesh_config import MeshConfig
from stagemesh.runtime.server import bind, build_server

VOCAB = 258
EOS = 257
PROMPT = list(b"tell me")


def byte_alphabet() -> list[str]:
    """The character that stands for each byte in GPT-2's alphabet."""
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return [chr(byte if byte in plain else next(others)) for byte in range(256)]


def make_tiny_model(folder: Path, *, num_heads: int = 4) -> ModelFiles:
    """A random Llama whose tokens are single bytes (258 of them with two specials); with 2 heads for native kernels."""
    tokenizer = Tokenizer(models.BPE({text: token for token, text in enumerate(byte_alphabet())}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|start|>", "<|end|>"])
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    torch.manual_seed(5)
    config = transformers.LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=num_heads,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        bos_token_id=256,
        eos_token_id=EOS,
        tie_word_embeddings=False,
    )
    model = transformers.LlamaForCausalLM(config)
    with torch.no_grad():
        model.lm_head.weight.mul_(20)
    model.save_pretrained(folder)
    return ModelFiles(name="tiny", source=str(folder), kind="hf", path=folder, cache_dir=folder)


def load(files: ModelFiles, **config: object) -> LoadedModel:
    return load_model(files, EngineConfig(threads=1, **config))  # type: ignore[arg-type]


@dataclass
class Server:
    stub: engine_pb2_grpc.EngineServiceAsyncStub
    engine: Engine
    servicer: EngineServicer


@asynccontextmanager
async def engine_server(model: LoadedModel, kv_url: str = "", **config: object) -> AsyncIterator[Server]:
    """Serve `model`; on leaving, what still runs is ended, and no page may be left in use."""
    mesh = MeshConfig()
    engine = Engine(model, EngineConfig(threads=1, **config), kv_url)  # type: ignore[arg-type]
    servicer = EngineServicer(drain_grace_s=5.0)

    class Service:
        service_names = ("stagemesh.api.engine.v1.EngineService",)

        def register(self, server: grpc.aio.Server) -> None:
            engine_pb2_grpc.add_EngineServiceServicer_to_server(servicer, server)

    server, _ = build_server(Service(), mesh)  # type: ignore[arg-type]
    port = bind(server, "127.0.0.1:0", "engine.listen")
    await server.start()
    engine.start()
    servicer.engine = engine
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        try:
            yield Server(engine_pb2_grpc.EngineServiceStub(channel), engine, servicer)  # type: ignore[arg-type]
        finally:
            await engine.stop(Unavailable("ENGINE_STOPPING", "the test is over"))
            servicer.close()
            await server.stop(grace=0.5)
            engine.close()
            engine.core.check_integrity()
            assert engine.core.load().used_pages == 0, "pages are left in use"


def submit(
    sequence_id: str,
    token_ids: Sequence[int] = PROMPT,
    *,
    delivered: Iterable[int] = (),
    constraint: common_pb2.OutputConstraint | None = None,
    salt: bytes = b"",
    deadline_unix_us: int = 0,
    model: common_pb2.ModelIdentity | None = None,
    policy: common_pb2.Policy | None = None,
    kv: common_pb2.KvLease | None = None,
    tenant_id: str = "tenant",
    **sampling: object,
) -> engine_pb2.Submit:
    params = {"temperature": 0.0, "max_tokens": 8, "ignore_eos": True, **sampling}
    return engine_pb2.Submit(
        sequence_id=sequence_id,
        tenant_id=tenant_id,
        token_ids=token_ids,
        sampling=common_pb2.SamplingParams(**params),  # type: ignore[arg-type]
        constraint=constraint,
        cache_salt=salt,
        deadline_unix_us=deadline_unix_us,
        delivered_token_ids=delivered,
        model=model,
        policy=policy,
        kv=kv,
    )


@dataclass
class Answer:
    """One sequence as its caller sees it; gaps and repeats are errors."""

    first_index: int = 0
    tokens: list[int] = field(default_factory=list)
    logprobs: list[common_pb2.TokenLogprobs] = field(default_factory=list)
    queue: list[engine_pb2.QueueState] = field(default_factory=list)
    finish: engine_pb2.Finish | None = None

    def take(self, delta: engine_pb2.SequenceDelta) -> None:
        assert self.finish is None, "news after the end"
        if delta.token_ids:
            assert delta.first_index == self.first_index + len(self.tokens), "a gap or a repeat"
        self.tokens += delta.token_ids
        self.logprobs += delta.logprobs
        if delta.HasField("queue"):
            self.queue.append(delta.queue)
        if delta.HasField("finish"):
            self.finish = delta.finish

    @property
    def reason(self) -> str:
        assert self.finish is not None, "it has not ended"
        return common_pb2.FinishReason.Name(self.finish.reason).removeprefix("FINISH_REASON_")


async def generate(server: Server, message: engine_pb2.Submit, timeout_s: float = 30.0) -> Answer:
    answer = Answer(first_index=len(message.delivered_token_ids))
    async for response in server.stub.Generate(engine_pb2.GenerateRequest(submit=message), timeout=timeout_s):
        answer.take(response.delta)
    return answer


class RunCall:
    """A Run call with its answers by sequence."""

    def __init__(self, server: Server, timeout_s: float = 60.0) -> None:
        self.call = server.stub.Run(timeout=timeout_s)
        self.answers: dict[str, Answer] = {}
        self.num_messages = 0

    async def submit(self, message: engine_pb2.Submit) -> None:
        self.answers[message.sequence_id] = Answer(first_index=len(message.delivered_token_ids))
        await self.call.write(engine_pb2.RunRequest(submit=message))

    async def cancel(self, sequence_id: str) -> None:
        await self.call.write(engine_pb2.RunRequest(cancel=engine_pb2.Cancel(sequence_id=sequence_id)))

    async def read(self) -> bool:
        """Take one message; False at the end of the call."""
        response = await self.call.read()
        if response is grpc.aio.EOF:
            return False
        self.num_messages += 1
        for delta in response.deltas:
            self.answers.setdefault(delta.sequence_id, Answer()).take(delta)
        return True

    async def read_until_finished(self, *sequence_ids: str) -> None:
        wanted = sequence_ids or tuple(self.answers)
        while any(self.answers[name].finish is None for name in wanted):
            assert await self.read(), "the call ended early"

    async def read_tokens(self, sequence_id: str, num_tokens: int) -> None:
        """Read until so many tokens of the sequence have come."""
        while len(self.answers[sequence_id].tokens) < num_tokens:
            assert await self.read(), "the call ended early"


async def eventually(condition: object, timeout_s: float = 10.0) -> None:
    """Poll until `condition()` holds."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # type: ignore[operator]
            await asyncio.sleep(0.01)
