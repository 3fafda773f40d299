"""Which engines a request can go to that asks for a precision mode."""

from __future__ import annotations

from typing import Any

import pytest

from services.gateway.engines import ANY_MODE, Engines
from services.gateway.prepare import mode_and_identity
from stagemesh.api.common.v1.common_pb2 import PRECISION_MODE_PRECISE, PRECISION_MODE_STANDARD, PRECISION_MODE_TURBO
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.runtime.errors import Precondition


class Link:
    """An engine that is up."""

    ready = True

    def __init__(self, modes: dict[int, str]) -> None:
        self.description = engine_pb2.DescribeResponse()
        self.description.model.model = "m"
        self.description.model.precision = next(iter(modes.values()))
        for mode, precision in modes.items():
            self.description.modes.add(mode=mode, precision=precision)  # type: ignore[arg-type]  # numbers as they are


@pytest.fixture
def engines() -> Engines:
    made: Any = Engines([], max_message_bytes=65_536)
    made._links = {
        "a": Link({PRECISION_MODE_STANDARD: "q8_0", PRECISION_MODE_TURBO: "q4_1"}),
        "b": Link({PRECISION_MODE_PRECISE: "bf16"}),
    }
    return made  # type: ignore[no-any-return]  # an Engines


def test_a_request_goes_to_engines_that_hold_its_mode(engines: Engines) -> None:
    assert len(engines.serving("m", ANY_MODE)) == 2
    (precise,) = engines.serving("m", PRECISION_MODE_PRECISE)
    assert precise.description is not None
    assert precise.description.model.precision == "bf16"
    assert not engines.serving("other", PRECISION_MODE_PRECISE)


def test_a_mode_that_no_engine_holds_is_refused_with_those_that_there_are(engines: Engines) -> None:
    for held in (ANY_MODE, PRECISION_MODE_TURBO, PRECISION_MODE_PRECISE):
        engines.check_mode("m", held)
    engines.check_mode("other", PRECISION_MODE_TURBO)  # nothing is known of it: its engines may come up
    del engines._links["b"]
    with pytest.raises(Precondition, match="in the mode precise; there are standard, turbo") as caught:
        engines.check_mode("m", PRECISION_MODE_PRECISE)
    assert caught.value.reason == "MODE_UNAVAILABLE"


def test_the_identity_names_the_precision_of_the_mode(engines: Engines) -> None:
    described = engines.serving("m")[0].description
    assert described is not None
    mode, model = mode_and_identity(described, ANY_MODE)
    assert (mode, model.precision) == (PRECISION_MODE_STANDARD, "q8_0")
    mode, model = mode_and_identity(described, PRECISION_MODE_TURBO)
    assert (mode, model.precision) == (PRECISION_MODE_TURBO, "q4_1")
    assert described.model.precision == "q8_0"


def test_engines_of_other_modes_do_not_keep_a_full_one_from_being_full(engines: Any) -> None:
    engines._links["a"].load = engine_pb2.WatchLoadResponse(waiting=0)
    engines._links["b"].load = engine_pb2.WatchLoadResponse(waiting=5)
    assert engines.is_over("m", PRECISION_MODE_PRECISE, 5)
    assert not engines.is_over("m", PRECISION_MODE_TURBO, 5)
    assert not engines.is_over("m", ANY_MODE, 5)
