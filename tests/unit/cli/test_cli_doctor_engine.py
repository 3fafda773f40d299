"""`stagemesh doctor` names the backend that the engine would take, and what to install where it takes none."""

from __future__ import annotations

import pytest

from stagemesh.cli.doctor.engine import Means, backend, compiler, instruction_set, torch_build
from stagemesh.cli.doctor.finding import Level

EVERYTHING = Means(level="avx2", library="/lib.so", compiler="g++ 12", torch="2.13.0")


def means(**changes: str) -> Means:
    return Means(**{**vars(EVERYTHING), **changes})


@pytest.mark.parametrize(
    ("asked", "there", "level", "detail"),
    [
        ("auto", means(compiler="", torch=""), Level.OK, "native on avx2, compiled: /lib.so"),
        ("auto", means(library="", torch=""), Level.OK, "native on avx2, compiled when"),
        ("native", means(library="", torch=""), Level.OK, "native on avx2, compiled when"),
        ("auto", means(library="", compiler=""), Level.RISK, "torch, several times slower: no C++ compiler"),
        ("auto", means(level="", library=""), Level.RISK, "torch, several times slower: no native kernels"),
        ("auto", means(library="", compiler="", torch=""), Level.FAIL, "no C++ compiler"),
        ("auto", means(level="", library="", torch=""), Level.FAIL, "no native kernels"),
        ("native", means(library="", compiler=""), Level.FAIL, "no C++ compiler"),
        ("native", means(level="", library=""), Level.FAIL, "no native kernels"),
        ("torch", EVERYTHING, Level.OK, "torch, as configured"),
        ("torch", means(torch=""), Level.FAIL, "torch, not installed"),
    ],
)
def test_the_backend_follows_from_what_is_there(asked: str, there: Means, level: Level, detail: str) -> None:
    finding = backend(asked, there)
    assert finding.level == level
    assert finding.detail.startswith(detail)
    assert bool(finding.fix) == (level != Level.OK)


def test_with_neither_a_compiler_nor_torch_both_ways_out_are_named() -> None:
    fix = backend("auto", means(library="", compiler="", torch="")).fix
    assert "C++ compiler" in fix
    assert "stagemesh[torch]" in fix


def test_a_compiler_is_missed_only_where_it_would_be_used() -> None:
    assert compiler(means(library="", compiler="")).level == Level.RISK
    assert compiler(means(compiler="")).level == Level.OK
    assert compiler(means(level="", library="", compiler="")).level == Level.OK
    assert compiler(EVERYTHING).detail == "g++ 12"


def test_no_torch_is_well_and_another_than_the_pinned_one_is_a_risk() -> None:
    assert torch_build(means(torch="")).level == Level.OK
    assert torch_build(means(torch="1.0")).level == Level.RISK
    assert instruction_set(means(level="")).level == Level.RISK
