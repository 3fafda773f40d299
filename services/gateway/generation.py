"""One choice: from the engine's tokens to text that callers may see."""

from __future__ import annotations

import time
from contextlib import aclosing

import grpc

from services.gateway import stages
from services.gateway.calls import call
from services.gateway.config import GatewayConfig
from services.gateway.detokenizer import TextStream, no_text
from services.gateway.job import Job
from services.gateway.peers import Peers
from services.gateway.progress import Progress
from services.gateway.service_problem import service_problem
from services.gateway.work import Output, Prompt, Work
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.api.tokenizer.v1 import tokenizer_pb2
from stagemesh.runtime.deadline import Deadline
from stagemesh.runtime.errors import DeadlineExceeded, StagemeshError, from_detail
from stagemesh.runtime.retry import RetryPolicy

SEED_STRIDE = 0x9E3779B97F4A7C15
"""Odd constant (2⁶⁴ divided by the golden ratio) that spreads the seeds of further choices."""

DECODE_RETRIES = RetryPolicy(max_attempts=1_000, first_backoff_s=0.1, max_faults=2)
"""Within `gateway.tokenizer_wait_s`, as for the text itself."""


def choice_seed(seed: int, index: int) -> int:
    """The seed of choice `index`: the request's own for the first, others spread over 63 bits."""
    return (seed + index * SEED_STRIDE) % 2**63


def sequence_id(job: Job, index: int) -> str:
    """Unique in the mesh: two tenants may choose the same request ID."""
    return f"{job.tenant_id}/{job.request_id}" + (f"/{index}" if index else "")


def max_tokens_of(job: Job, prompt: Prompt) -> int:
    """The caller's limit, or the route's; never more than the context holds."""
    asked = job.request.sampling.max_tokens or job.route.max_tokens
    return max(1, min(asked, prompt.context_length - len(prompt.token_ids)))


def build_submit(job: Job, prompt: Prompt, output: Output, deadline: Deadline) -> engine_pb2.Submit:
    submit = engine_pb2.Submit(
        sequence_id=sequence_id(job, output.index),
        tenant_id=job.tenant_id,
        token_ids=prompt.token_ids,
        model=prompt.model,
        sampling=job.request.sampling,
        cache_salt=prompt.lease.salt,
        deadline_unix_us=deadline.unix_us(),
        delivered_token_ids=output.token_ids,
        ttft_target_ms=job.route.ttft_target_ms,
    )
    if prompt.lease.HasField("kv"):
        submit.kv.CopyFrom(prompt.lease.kv)
    elif prompt.lease.salt:  # nothing to load or store, but its pages are known to later turns, which may store them
        submit.kv.epoch = prompt.lease.epoch
    submit.policy.precision_mode = prompt.mode
    submit.sampling.n = 1
    submit.sampling.max_tokens = max_tokens_of(job, prompt)
    submit.sampling.seed = choice_seed(job.request.sampling.seed, output.index)
    if job.has_constraint:
        submit.constraint.CopyFrom(job.request.constraint)
    return submit


class Generation:
    """Runs one choice to its end, publishing deltas."""

    def __init__(self, work: Work, prompt: Prompt, peers: Peers, config: GatewayConfig) -> None:
        self._job = job = work.job
        self._deadline = work.deadline
        self._prompt = prompt
        self._peers = peers
        self._config = config
        self._log = work.log_stages
        self._publish = work.publish_delta
        self._progress = Progress(
            job.request_id, len(prompt.token_ids), lambda queued: work.running.publish(queued=queued)
        )
        self._num_held_chars = max((len(stop) for stop in job.request.sampling.stop), default=1) - 1
        self._wants_logprobs = job.request.sampling.HasField("logprobs")
        self._token_texts: dict[int, str] = {}
        self._detokenize_us = 0

    async def run(self, output: Output) -> None:
        """Fill `output` until its finish; what it holds already counts as delivered.

        Raises the StagemeshError that ended it; `output` then holds what was delivered until then.
        """
        submit = build_submit(self._job, self._prompt, output, self._deadline)
        texts = TextStream(self._peers.detokenizer, submit.sequence_id, self._job.model)
        try:
            await self._run(output, submit, texts)
        finally:
            texts.leave()

    async def _run(self, output: Output, submit: engine_pb2.Submit, texts: TextStream) -> None:
        attempt = 1
        if output.token_ids:
            try:
                output.text = await self._detokenize(texts, list(output.token_ids), end=False)
            except StagemeshError as error:
                self._report_text(texts, error)
                raise
        deltas = self._peers.engines.run(
            self._job.model,
            submit,
            self._deadline,
            max_attempts=self._config.engine_max_attempts,
            engine_wait_s=self._config.engine_wait_s,
            placement=self._prompt.placement,
        )
        async with aclosing(deltas):
            async for delta, number in deltas:
                attempt = number
                if delta.HasField("queue"):
                    self._progress.tell(delta.queue)
                for report in delta.degraded:
                    self._log.add(report)
                if delta.HasField("finish"):
                    output.finish = delta.finish
                if delta.token_ids or output.finish:
                    try:
                        await self._extend(output, delta, texts)
                    except StagemeshError as error:
                        self._report_engine(output.finish, attempt)
                        self._report_text(texts, error)
                        raise
        assert output.finish is not None
        self._report_engine(output.finish, attempt)
        self._report_text(texts)
        self._peers.sessions.served(self._job.tenant_id, self._job.request.session_id, self._prompt.placement)
        self._peers.prefixes.served(self._job.tenant_id, self._prompt.token_ids, self._prompt.placement)
        if output.finish.HasField("error"):
            raise from_detail(output.finish.error)
        if output.finish.reason == common_pb2.FINISH_REASON_DEADLINE:
            raise DeadlineExceeded("DEADLINE_EXCEEDED", "the request's deadline passed while it was generating")

    async def _extend(self, output: Output, delta: engine_pb2.SequenceDelta, texts: TextStream) -> None:
        output.token_ids.extend(delta.token_ids)
        output.text += await self._detokenize(texts, list(delta.token_ids), end=output.finish is not None)
        if self._wants_logprobs and delta.logprobs:
            output.logprobs.extend(await self._logprobs(delta))
        if output.finish is not None:
            if output.finish.stop and (cut := output.text.find(output.finish.stop)) >= 0:
                output.text = output.text[:cut]
            visible = len(output.text)
        else:
            visible = max(output.num_sent_chars, len(output.text) - self._num_held_chars)
        if visible > output.num_sent_chars or output.finish is not None:
            self._send(output, visible)

    def _send(self, output: Output, visible: int) -> None:
        first = output.num_sent_tokens
        self._publish(
            gateway_pb2.Delta(
                index=output.index,
                text=output.text[output.num_sent_chars : visible],
                token_ids=output.token_ids[first:],
                first_index=first,
                logprobs=output.logprobs[first:],
            )
        )
        output.num_sent_chars, output.num_sent_tokens = visible, len(output.token_ids)

    async def _detokenize(self, texts: TextStream, token_ids: list[int], *, end: bool) -> str:
        started_s = time.perf_counter()
        try:
            return await texts.feed(
                token_ids, end=end, attempt_s=self._config.tokenizer_timeout_s, wait_s=self._config.tokenizer_wait_s
            )
        finally:
            self._detokenize_us += int((time.perf_counter() - started_s) * 1e6)

    def _report_engine(self, finish: engine_pb2.Finish | None, attempt: int) -> None:
        """What the engine says of its stages; without its finish, that they ran, since tokens came."""
        ran = (
            common_pb2.StageReport(
                stage=stage, status=common_pb2.STAGE_STATUS_OK, instance=self._prompt.placement.served_by
            )
            for stage in stages.ORDER
            if stage in stages.ENGINE_STAGES
        )
        for report in finish.stages if finish is not None else ran:
            report.attempts = attempt
            self._log.add(report)

    def _report_text(self, texts: TextStream, error: StagemeshError | None = None) -> None:
        self._log.add(
            common_pb2.StageReport(
                stage=stages.DETOKENIZE,
                status=common_pb2.STAGE_STATUS_FAILED if error else common_pb2.STAGE_STATUS_OK,
                attempts=1 + texts.num_reopened,
                duration_us=self._detokenize_us,
                reason=error.reason if error else "",
            )
        )

    async def _logprobs(self, delta: engine_pb2.SequenceDelta) -> list[gateway_pb2.Logprob]:
        await self._learn_texts(
            {t for entry in delta.logprobs for t in (entry.token_id, *(top.token_id for top in entry.top))}
        )
        return [
            gateway_pb2.Logprob(
                token_id=entry.token_id,
                token=self._token_texts[entry.token_id],
                logprob=entry.logprob,
                top=[
                    gateway_pb2.TopLogprob(token_id=t.token_id, token=self._token_texts[t.token_id], logprob=t.logprob)
                    for t in entry.top
                ],
            )
            for entry in delta.logprobs
        ]

    async def _learn_texts(self, token_ids: set[int]) -> None:
        unknown = sorted(token_ids - self._token_texts.keys())
        if not unknown:
            return
        request = tokenizer_pb2.DecodeRequest(
            model=self._job.model,
            sequences=[tokenizer_pb2.TokenIds(ids=[token_id]) for token_id in unknown],
            keep_special_tokens=True,
        )
        wait = Deadline.after(self._deadline.budget_s(self._config.tokenizer_wait_s))
        try:
            answer = await call(
                self._peers.tokenizer.Decode, request, DECODE_RETRIES, wait, self._config.tokenizer_timeout_s
            )
        except (grpc.RpcError, DeadlineExceeded) as error:
            self._deadline.budget_s()  # it may be the request's own time that is over
            if isinstance(error, grpc.RpcError):
                raise service_problem("tokenizer", error) from error
            raise no_text() from error
        self._token_texts.update(zip(unknown, answer.response.texts, strict=True))
