"""Errors as callers see them.

    StagemeshError
    ├── InvalidRequest        INVALID_ARGUMENT     the request is wrong; the same request fails again
    ├── NotFound              NOT_FOUND            what was named does not exist
    ├── AlreadyExists         ALREADY_EXISTS       the identifier is taken by something else
    ├── Unauthenticated       UNAUTHENTICATED      no valid key
    ├── Forbidden             PERMISSION_DENIED    a valid key, but not for this
    ├── Precondition          FAILED_PRECONDITION  the system is in another state than the request assumes
    ├── Exhausted             RESOURCE_EXHAUSTED   a limit or quota; retry after `retry_after_ms` where that is set
    ├── Unavailable           UNAVAILABLE          a part is away; retry with back-off
    ├── DeadlineExceeded      DEADLINE_EXCEEDED    the time was too short
    ├── Cancelled             CANCELLED            the caller gave up
    ├── Unsupported           UNIMPLEMENTED        a known feature that this build does not have
    └── Internal              INTERNAL             a fault of ours; safe to report, pointless to repeat blindly

`reason` is stable and listed in docs/errors.md; `message` says what to do and may change.
"""

from __future__ import annotations

import sys
from typing import ClassVar, NoReturn, cast

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from stagemesh.api.common.v1 import common_pb2

DOMAIN = "stagemesh"


class StagemeshError(Exception):
    code: ClassVar[grpc.StatusCode] = grpc.StatusCode.UNKNOWN

    def __init__(self, reason: str, message: str, *, field: str = "", retry_after_ms: int = 0) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.field = field
        self.retry_after_ms = retry_after_ms

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}"


class InvalidRequest(StagemeshError):
    code = grpc.StatusCode.INVALID_ARGUMENT


class NotFound(StagemeshError):
    code = grpc.StatusCode.NOT_FOUND


class AlreadyExists(StagemeshError):
    code = grpc.StatusCode.ALREADY_EXISTS


class Unauthenticated(StagemeshError):
    code = grpc.StatusCode.UNAUTHENTICATED


class Forbidden(StagemeshError):
    code = grpc.StatusCode.PERMISSION_DENIED


class Precondition(StagemeshError):
    code = grpc.StatusCode.FAILED_PRECONDITION


class Exhausted(StagemeshError):
    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class Unavailable(StagemeshError):
    code = grpc.StatusCode.UNAVAILABLE


class DeadlineExceeded(StagemeshError):
    code = grpc.StatusCode.DEADLINE_EXCEEDED


class Cancelled(StagemeshError):
    code = grpc.StatusCode.CANCELLED


class Unsupported(StagemeshError):
    code = grpc.StatusCode.UNIMPLEMENTED


class Internal(StagemeshError):
    code = grpc.StatusCode.INTERNAL


BY_CODE: dict[grpc.StatusCode, type[StagemeshError]] = {kind.code: kind for kind in StagemeshError.__subclasses__()}


def _code_number(code: grpc.StatusCode) -> int:
    number: int = code.value[0]
    return number


def to_detail(error: StagemeshError) -> common_pb2.ErrorDetail:
    """The error as data, for events and stored outcomes."""
    return common_pb2.ErrorDetail(
        code=_code_number(error.code),
        reason=error.reason,
        message=error.message,
        retry_after_ms=error.retry_after_ms,
        field=error.field,
    )


def from_detail(detail: common_pb2.ErrorDetail) -> StagemeshError:
    """The error that `to_detail` described."""
    code = next((code for code in grpc.StatusCode if _code_number(code) == detail.code), grpc.StatusCode.INTERNAL)
    kind = BY_CODE.get(code, Internal)
    return kind(detail.reason, detail.message, field=detail.field, retry_after_ms=detail.retry_after_ms)


def to_status(error: StagemeshError) -> status_pb2.Status:
    """A `google.rpc.Status` with ErrorInfo, and RetryInfo and BadRequest where they apply."""
    details: list[any_pb2.Any] = []

    def attach(
        message: error_details_pb2.ErrorInfo | error_details_pb2.RetryInfo | error_details_pb2.BadRequest,
    ) -> None:
        packed = any_pb2.Any()
        packed.Pack(message)
        details.append(packed)

    attach(error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN))
    if error.retry_after_ms:
        delay = duration_pb2.Duration()
        delay.FromMilliseconds(error.retry_after_ms)
        attach(error_details_pb2.RetryInfo(retry_delay=delay))
    if error.field:
        violation = error_details_pb2.BadRequest.FieldViolation(field=error.field, description=error.message)
        attach(error_details_pb2.BadRequest(field_violations=[violation]))
    return status_pb2.Status(code=_code_number(error.code), message=error.message, details=details)


def from_rpc(error: grpc.RpcError) -> StagemeshError:
    """The error that a peer sent, or the nearest one for a bare gRPC status."""
    code: grpc.StatusCode = error.code() if hasattr(error, "code") else grpc.StatusCode.UNKNOWN
    message = (error.details() if hasattr(error, "details") else str(error)) or code.name
    reason, field, retry_after_ms = code.name, "", 0
    status = rpc_status.from_call(cast(grpc.Call, error)) if isinstance(error, grpc.aio.AioRpcError) else None
    for packed in status.details if status is not None else ():
        info, retry, bad = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo(), error_details_pb2.BadRequest()
        if packed.Unpack(info):
            reason = info.reason
        elif packed.Unpack(retry):
            retry_after_ms = retry.retry_delay.ToMilliseconds()
        elif packed.Unpack(bad) and bad.field_violations:
            field = bad.field_violations[0].field
    return BY_CODE.get(code, Internal)(reason, message, field=field, retry_after_ms=retry_after_ms)


def known_code(number: int) -> str:
    """`INVALID_ARGUMENT` for 3."""
    name: str = code_pb2.Code.Name(number)
    return name


def die(message: str) -> NoReturn:
    """End a process that cannot start, with a sentence instead of a traceback."""
    print(f"stagemesh: {message}", file=sys.stderr)  # noqa: T201  the process has no logging yet, or a person waits
    raise SystemExit(78)  # EX_CONFIG of sysexits.h: a supervisor must not restart it in a loop
