"""What became of a request: an answer, or one of the errors that stand for the other outcomes."""

from __future__ import annotations

from services.gateway.http.extras import extras
from services.gateway.http.failures import Failure, error_object, failure_of
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.errors import Cancelled, DeadlineExceeded, Internal, StagemeshError, Unavailable, from_detail

ANSWERED = (common_pb2.OUTCOME_COMPLETE, common_pb2.OUTCOME_DEGRADED)

MIN_RETRY_S = 1
MAX_RETRY_S = 60


class AnswerFailedError(Exception):
    """A request that was accepted ended without an answer."""

    def __init__(self, final: gateway_pb2.Final) -> None:
        self.final = final
        self.error = error_of(final)
        super().__init__(str(self.error))

    def failure(self) -> Failure:
        return failure_of(self.error, {"stagemesh": extras([self.final])})


class DeferredError(Exception):
    """A request was taken for later: its answer is to be picked up under its ID."""

    def __init__(self, queued: gateway_pb2.Queued) -> None:
        self.request_id = queued.request_id
        self.retry_after_s = min(max(queued.estimated_wait_ms // 1000, MIN_RETRY_S), MAX_RETRY_S)
        super().__init__(queued.request_id)

    def failure(self) -> Failure:
        location = f"/v1/requests/{self.request_id}"
        error = Unavailable("DEFERRED", f"over capacity: the answer will be at {location}, once; do not send it again")
        body = {
            "error": {**error_object(error, 503), "request_id": self.request_id},
            "stagemesh": {"request_id": self.request_id, "outcome": "deferred"},
        }
        # A client that repeats a 503 by itself would have the request worked on twice.
        headers = {"x-should-retry": "false", "retry-after": str(self.retry_after_s), "location": location}
        return Failure(503, body, headers)


def raise_unless_answered(event: gateway_pb2.Event) -> None:
    """Raises DeferredError or AnswerFailedError when `event` says that there will be no answer on this connection."""
    if event.HasField("queued") and event.queued.deferred:
        raise DeferredError(event.queued)
    if not event.HasField("final"):
        return
    if event.final.outcome == common_pb2.OUTCOME_DEFERRED:
        raise DeferredError(gateway_pb2.Queued(request_id=event.final.request_id, deferred=True))
    if event.final.outcome not in ANSWERED:
        raise AnswerFailedError(event.final)


def error_of(final: gateway_pb2.Final) -> StagemeshError:
    """The error that stands for a final outcome without an answer."""
    if final.HasField("error"):
        return from_detail(final.error)
    if final.outcome == common_pb2.OUTCOME_EXPIRED:
        return DeadlineExceeded("DEADLINE_EXCEEDED", "the request's deadline has passed")
    if final.outcome == common_pb2.OUTCOME_CANCELLED:
        return Cancelled("CANCELLED", "the request was cancelled")
    return Internal("INTERNAL", "the request ended without an answer and without a reason")
