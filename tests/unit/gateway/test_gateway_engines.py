import pytest

from services.gateway.engines import ANY_MODE, Engines
from stagemesh.runtime.deadline import Deadline
from stagemesh.runtime.errors import DeadlineExceeded, Unavailable


async def test_without_an_engine_a_request_is_told_so_after_the_wait() -> None:
    engines = Engines([], max_message_bytes=65_536)
    with pytest.raises(Unavailable):
        await engines.wait_for("m", ANY_MODE, Deadline.after(10), 0.01)


async def test_a_deadline_that_has_passed_is_not_blamed_on_the_engines() -> None:
    engines = Engines([], max_message_bytes=65_536)
    with pytest.raises(DeadlineExceeded):
        await engines.wait_for("m", ANY_MODE, Deadline.after(0), 10)
