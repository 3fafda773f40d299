"""One recorded answer → the candidate's answer → one pair."""

from __future__ import annotations

import asyncio
from datetime import UTC
from functools import partial

from services.differ.candidate import CandidateAnswer, CandidateEngine
from services.differ.candidate_tokenizer import CandidateTokenizer, load_candidate_tokenizer
from services.differ.comparison import first_divergence, similarity
from services.differ.config import DifferConfig
from services.differ.pair import Pair, Side
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.api.events.v1 import events_pb2
from stagemesh.runtime.mesh_config import MeshConfig


class Comparer:
    def __init__(self, mesh: MeshConfig, config: DifferConfig, engine: CandidateEngine) -> None:
        self._mesh, self._config, self._engine = mesh, config, engine
        self._tokenizers: dict[tuple[str, str], asyncio.Task[CandidateTokenizer]] = {}

    async def compare(self, envelope: events_pb2.Envelope, attempt: int) -> Pair:
        """Raises TryLater while the candidate engine is away, a StagemeshError when it cannot answer this."""
        answer = envelope.answer
        model = await self._engine.describe()
        tokenizer = await self._tokenizer(model)
        same = model.tokenizer_hash == answer.final.model.tokenizer_hash
        prompt = list(answer.prompt_token_ids) if same else await asyncio.to_thread(tokenizer.prompt, answer.request)
        made = await self._engine.generate(self._submit(envelope, prompt))
        return await asyncio.to_thread(partial(self._pair, envelope, attempt, model, tokenizer, made, same=same))

    def failed(self, envelope: events_pb2.Envelope, attempts: int, reason: str) -> Pair:
        """The pair of an answer that could not be compared."""
        return Pair(
            tenant_id=envelope.tenant_id,
            request_id=envelope.request_id,
            answered_at=envelope.occurred_at.ToDatetime(UTC),
            stable=self._stable(envelope.answer),
            corrected=_corrected(envelope.answer),
            error=reason,
            attempts=attempts,
        )

    def _pair(
        self,
        envelope: events_pb2.Envelope,
        attempt: int,
        model: common_pb2.ModelIdentity,
        tokenizer: CandidateTokenizer,
        made: CandidateAnswer,
        *,
        same: bool,
    ) -> Pair:
        stable = self._stable(envelope.answer)
        text = tokenizer.decode(made.token_ids)
        text = text.partition(made.stop)[0] if made.stop else text
        text = text[: self._config.max_text_chars]
        recorded = envelope.answer.output_token_ids if same else tokenizer.encode(stable.text)
        return Pair(
            tenant_id=envelope.tenant_id,
            request_id=envelope.request_id,
            answered_at=envelope.occurred_at.ToDatetime(UTC),
            stable=stable,
            candidate=Side(
                model=model.model,
                revision=model.revision,
                text=text,
                num_tokens=len(made.token_ids),
                finish_reason=_finish_name(made.finish_reason),
                total_us=made.total_us,
            ),
            similarity=similarity(stable.text, text),
            first_divergent_token=first_divergence(recorded, made.token_ids),
            same_tokenizer=same,
            corrected=_corrected(envelope.answer),
            attempts=attempt,
        )

    def _stable(self, answer: events_pb2.AnswerRecorded) -> Side:
        final = answer.final
        choice = final.choices[0] if final.choices else None
        return Side(
            model=final.model.model,
            revision=final.model.revision,
            text="" if choice is None else choice.text[: self._config.max_text_chars],
            num_tokens=len(answer.output_token_ids),
            finish_reason="" if choice is None else _finish_name(choice.finish_reason),
            total_us=final.total_us,
        )

    def _submit(self, envelope: events_pb2.Envelope, prompt: list[int]) -> engine_pb2.Submit:
        """The same draws as the stable engine's: they depend on seed, sequence ID and position."""
        request, final = envelope.answer.request, envelope.answer.final
        submit = engine_pb2.Submit(sequence_id=envelope.request_id, tenant_id=envelope.tenant_id, token_ids=prompt)
        submit.sampling.CopyFrom(request.sampling)
        submit.sampling.n = 1
        submit.sampling.seed = final.seed
        submit.sampling.ClearField("logprobs")
        if not submit.sampling.max_tokens:
            cut = final.choices and final.choices[0].finish_reason == common_pb2.FINISH_REASON_LENGTH
            submit.sampling.max_tokens = (
                len(envelope.answer.output_token_ids) if cut else self._config.default_max_tokens
            ) or 1
        if request.constraint.WhichOneof("kind"):
            submit.constraint.CopyFrom(request.constraint)
        return submit

    async def _tokenizer(self, model: common_pb2.ModelIdentity) -> CandidateTokenizer:
        key = (model.model, model.tokenizer_hash)
        if key not in self._tokenizers:
            self._tokenizers = {key: asyncio.create_task(asyncio.to_thread(load_candidate_tokenizer, self._mesh, *key))}
        try:
            return await asyncio.shield(self._tokenizers[key])
        except BaseException:
            self._tokenizers.pop(key, None)
            raise


def _corrected(answer: events_pb2.AnswerRecorded) -> bool:
    return bool(answer.final.choices and answer.final.choices[0].validation.changes)


def _finish_name(reason: common_pb2.FinishReason.ValueType) -> str:
    return common_pb2.FinishReason.Name(reason).removeprefix("FINISH_REASON_").lower()
