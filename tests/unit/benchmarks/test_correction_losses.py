"""The ablation of the loss: each variant differs in one term. A short run is made in test_corrector_training.py."""

from __future__ import annotations

from dataclasses import asdict

from benchmarks.correction_losses import NONE, OTHER_SEED, TERMS, variants


def test_each_variant_differs_from_none_in_one_term_alone() -> None:
    found = variants()
    assert [*found] == ["none", OTHER_SEED, *TERMS, "all"]
    for name in TERMS:
        different = {key for key, value in asdict(found[name]).items() if value != asdict(NONE)[key]}
        assert different == {name}
    assert {key for key, value in asdict(found["all"]).items() if value != asdict(NONE)[key]} == {*TERMS}
