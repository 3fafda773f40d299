"""What a caller hears while an engine has not given a token yet: its position there, then how far its prompt is."""

from __future__ import annotations

import time
from collections.abc import Callable

from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.api.gateway.v1 import gateway_pb2

PROGRESS_EVERY_S = 1.0
"""Between two events of one prompt's progress; the first comes so long after the request reached the engine."""
MOVES_EVERY_S = 0.25
"""Between two events of a position in the engine's queue, which may move with every step."""


class Progress:
    """Events of one request; few enough to be kept with it."""

    def __init__(
        self,
        request_id: str,
        num_prompt: int,
        publish: Callable[[gateway_pb2.Queued], None],
        now_s: float | None = None,
    ) -> None:
        self._request_id, self._num_prompt, self._publish = request_id, num_prompt, publish
        self._position = 0
        self._told_s = time.monotonic() if now_s is None else now_s

    def tell(self, queue: engine_pb2.QueueState, now_s: float | None = None) -> None:
        """Publish the engine's news if it is time for it."""
        now_s = time.monotonic() if now_s is None else now_s
        begins_to_wait = queue.position > 0 and not self._position
        pause_s = MOVES_EVERY_S if queue.position != self._position else PROGRESS_EVERY_S
        if not begins_to_wait and now_s - self._told_s < pause_s:
            return
        self._position, self._told_s = queue.position, now_s
        self._publish(
            gateway_pb2.Queued(
                request_id=self._request_id,
                position=queue.position,
                estimated_wait_ms=queue.estimated_wait_us // 1000,
                prefilled_tokens=queue.prefilled_tokens,
                prompt_tokens=self._num_prompt,
            )
        )
