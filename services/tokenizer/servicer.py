"""`TokenizerService` on the wire: requests → domain → responses."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

from services.tokenizer.analysis import analyze
from services.tokenizer.config import TokenizerConfig
from services.tokenizer.conversation import read_messages
from services.tokenizer.detokenize_call import DetokenizeCall
from services.tokenizer.loaded_model import LoadedModel
from services.tokenizer.model_set import ModelSet
from services.tokenizer.prepare import Prepared, prepare_chat, prepare_prompt
from services.tokenizer.stream_table import StreamTable
from services.tokenizer.text_limits import check_text
from services.tokenizer.work_pool import WorkPool
from stagemesh.api.tokenizer.v1 import tokenizer_pb2, tokenizer_pb2_grpc
from stagemesh.runtime.errors import InvalidRequest
from stagemesh.runtime.interceptors import Context

CHARS_PER_TOKEN = 4
"""For deciding whether decoding is small."""


class TokenizerServicer(tokenizer_pb2_grpc.TokenizerServiceServicer):
    def __init__(self, models: ModelSet, pool: WorkPool, config: TokenizerConfig) -> None:
        self._models = models
        self._pool = pool
        self._config = config

    async def Prepare(self, request: tokenizer_pb2.PrepareRequest, context: Context) -> tokenizer_pb2.PrepareResponse:
        model = self._models.find(request.model)
        match request.WhichOneof("input"):
            case "chat":
                prepared = await self._prepare_chat(model, request)
            case "prompt":
                prepared = await self._prepare_prompt(model, request)
            case _:
                raise InvalidRequest("EMPTY_MESSAGES", "send messages or a prompt", field="messages")
        started = time.perf_counter()
        size, problem = await analyze(len(prepared.token_ids), context)
        return tokenizer_pb2.PrepareResponse(
            token_ids=prepared.token_ids,
            tokenizer_hash=model.file.tokenizer_hash,
            template_hash=model.file.template_hash,
            length_class=size,
            session_tokens=prepared.session_tokens,
            cut_messages=prepared.cut_messages,
            template_us=prepared.template_us,
            encode_us=prepared.encode_us,
            analyze_us=int((time.perf_counter() - started) * 1e6),
            analyze_problem=problem,
        )

    async def _prepare_chat(self, model: LoadedModel, request: tokenizer_pb2.PrepareRequest) -> Prepared:
        if not request.chat.messages:
            raise InvalidRequest("EMPTY_MESSAGES", "send at least one message", field="messages")
        messages = read_messages(
            [*request.history.messages, *request.chat.messages],
            max_bytes=self._config.max_text_bytes,
            max_messages=self._config.max_messages,
        )
        stored_ids = list(request.history.token_ids)
        num_chars = sum(len(message.content) for message in messages) + CHARS_PER_TOKEN * len(stored_ids)
        return await self._pool.run(
            num_chars,
            lambda: prepare_chat(
                model,
                messages,
                stored_ids,
                max_tokens=_max_tokens(model, request),
                keep_recent=request.overflow == tokenizer_pb2.OVERFLOW_POLICY_KEEP_RECENT,
                config=self._config,
            ),
        )

    async def _prepare_prompt(self, model: LoadedModel, request: tokenizer_pb2.PrepareRequest) -> Prepared:
        if request.HasField("history"):
            raise InvalidRequest("SESSION_NEEDS_MESSAGES", "a session continues with messages, not with a prompt")
        check_text([request.prompt], self._config.max_text_bytes, "prompt")
        return await self._pool.run(
            len(request.prompt), lambda: prepare_prompt(model, request.prompt, _max_tokens(model, request))
        )

    async def Encode(self, request: tokenizer_pb2.EncodeRequest, context: Context) -> tokenizer_pb2.EncodeResponse:
        model = self._models.find(request.model)
        num_bytes = check_text(request.texts, self._config.max_text_bytes, "texts")
        results = await self._pool.run(
            num_bytes,
            lambda: [model.encode_raw(text, add_bos=request.add_special_tokens) for text in request.texts],
        )
        return tokenizer_pb2.EncodeResponse(results=[tokenizer_pb2.TokenIds(ids=ids) for ids in results])

    async def Decode(self, request: tokenizer_pb2.DecodeRequest, context: Context) -> tokenizer_pb2.DecodeResponse:
        model = self._models.find(request.model)
        num_tokens = sum(len(sequence.ids) for sequence in request.sequences)
        max_tokens = self._config.max_text_bytes // model.max_token_bytes
        if num_tokens > max_tokens:
            raise InvalidRequest(
                "TOO_MANY_TOKENS", f"{num_tokens} tokens exceed the limit of {max_tokens}", field="sequences"
            )
        texts = await self._pool.run(
            num_tokens * CHARS_PER_TOKEN,
            lambda: [
                model.decode(sequence.ids, keep_special=request.keep_special_tokens) for sequence in request.sequences
            ],
        )
        return tokenizer_pb2.DecodeResponse(texts=texts)

    async def Detokenize(
        self, request_iterator: AsyncIterator[tokenizer_pb2.DetokenizeRequest], context: Context
    ) -> AsyncIterator[tokenizer_pb2.DetokenizeResponse]:
        table = StreamTable(self._models.find, max_streams=self._config.max_streams, idle_s=self._config.stream_idle_s)
        call = DetokenizeCall(table, max_pending_chars=self._config.max_pending_chars)
        async for response in call.answers(request_iterator):
            yield response

    async def Describe(
        self, request: tokenizer_pb2.DescribeRequest, context: Context
    ) -> tokenizer_pb2.DescribeResponse:
        model = self._models.find(request.model)
        return tokenizer_pb2.DescribeResponse(
            model=model.name,
            vocab_size=model.file.vocab_size,
            tokenizer_hash=model.file.tokenizer_hash,
            template_hash=model.file.template_hash,
            special_tokens=[
                tokenizer_pb2.SpecialToken(id=token_id, text=text)
                for text, token_id in model.file.special_tokens.items()
            ],
            eos_token_ids=model.file.eos_token_ids,
            library=model.encoder.library,
            context_length=model.context_length,
        )


def _max_tokens(model: LoadedModel, request: tokenizer_pb2.PrepareRequest) -> int:
    return min(request.max_prompt_tokens or model.context_length, model.context_length)
