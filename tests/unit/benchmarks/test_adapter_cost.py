"""The benchmark of adapters in its short form: every case is there, and has a figure."""

from __future__ import annotations

import pytest

from benchmarks.adapter_cost import CASES, parse, run
from services.engine.kernels.native.build import supported_levels


@pytest.mark.skipif(not supported_levels(), reason="the native kernels need AVX2")
def test_the_short_form_prints_all_figures() -> None:
    figures = run(parse(["--quick", "--busy", "--threads", "1", "--rank", "4"]))
    assert set(figures["cases"]) == {case.name for case in CASES}
    assert all(value > 0 for case in figures["cases"].values() for value in case.values())
    assert figures["score"]["tokens"] == 16
    assert figures["score"]["cpu_ms_per_token"] > 0
