"""Validating a text: by the mesh, or in this process without one."""

from __future__ import annotations

import asyncio
import time

import grpc

from stagemesh.api.gateway.v1 import quality_pb2, quality_pb2_grpc
from stagemesh.api.validator.v1 import validator_pb2
from stagemesh.cli.client.connection import Connection
from stagemesh.cli.exits import CommandError, Exit
from stagemesh.cli.verdict_view import Outcome, of_verdict


def validate(connection: Connection, request: quality_pb2.ValidateRequest) -> Outcome:
    """The mesh's verdict. Raises CommandError."""

    async def call() -> validator_pb2.Verdict:
        async with connection.channel() as channel:
            stub = quality_pb2_grpc.QualityServiceStub(channel)
            try:
                answer = await stub.Validate(request, timeout=connection.timeout_s, metadata=connection.metadata)
                return answer.verdict
            except grpc.aio.AioRpcError as error:
                raise connection.explain(error) from None

    started_s = time.perf_counter()
    verdict = asyncio.run(call())
    return of_verdict(verdict, request.text, (time.perf_counter() - started_s) * 1000)


def validate_here(request: quality_pb2.ValidateRequest) -> Outcome:
    """The verdict of this process's own sandbox. Raises CommandError for what cannot be enforced."""
    from stagemesh.runtime.errors import StagemeshError

    try:
        from stagemesh.validation.checker import Checker, CheckerConfig
        from stagemesh.validation.messages import constraint_of, demands_of, verdict_message
        from stagemesh.validation.sandbox import Sandbox, SandboxConfig
    except ImportError as error:
        message = f"--local needs `pip install 'stagemesh[validator]'`: {error}"
        raise CommandError(message, Exit.USAGE) from None

    if any(anchor.set for anchor in request.anchors):
        raise CommandError("stored sets are the mesh's; with --local give files of keys", Exit.USAGE)

    async def call() -> tuple[validator_pb2.Verdict, float]:
        sandbox = Sandbox("stagemesh.validation.worker", SandboxConfig(num_workers=1))
        try:
            await sandbox.warm_up()
            checker = Checker(sandbox, CheckerConfig(timeout_s=30.0))
            started_s = time.perf_counter()
            verdict = await checker.validate(request.text, constraint_of(request.constraint), demands_of(request))
            return verdict_message(verdict), (time.perf_counter() - started_s) * 1000
        except StagemeshError as error:
            raise CommandError(f"{error.reason}: {error.message} ({error.field})", Exit.USAGE) from None
        finally:
            await sandbox.close()

    verdict, ms = asyncio.run(call())
    return of_verdict(verdict, request.text, ms)
