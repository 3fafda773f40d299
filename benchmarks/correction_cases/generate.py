"""Cases of all kinds, from a seed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

from benchmarks.correction_cases import form_faults as form
from benchmarks.correction_cases import value_faults as values
from benchmarks.correction_cases.case import Case
from benchmarks.correction_cases.form_faults import Broken, Fault, Make
from benchmarks.correction_cases.objects import businesses, instance_of, schema_of

KINDS: dict[str, Fault] = {
    "fences and prose": form.fences,
    "punctuation": form.punctuation,
    "full width": form.full_width,
    "truncated": form.truncated,
    "duplicated keys": form.duplicated,
    "two objects": form.two_objects,
    "numbers as text": values.numbers,
    "dates": values.dates,
    "booleans as words": values.booleans,
    "enum spellings": values.enums,
    "misspelled keys": values.misspelled,
    "wrapper": values.wrapped,
    "array against object": values.arrays,
    "names with spaces": values.spaced,
    "anchored ids": values.anchored,
    "table rows": values.rows,
    "missing value in source": values.missing,
    "escaped": form.escaped,
    "literals": form.literals,
    "control characters": form.control_characters,
    "deep nesting": values.deep,
    "large": values.large,
    "several at once": values.clean,
    "clean": values.clean,
    "undetermined": values.undetermined,
}
SEVERAL = (values.numbers, values.dates, values.booleans, values.enums, values.misspelled)
WRAPPERS = ("fences and prose", "punctuation")
MAX_TRIES = 400


def cases(seed: int, part: str, per_kind: int) -> Iterator[Case]:
    """`per_kind` cases of each kind and language; fewer of `large`, which are slow to make."""
    for kind in KINDS:
        for language in ("en", "zh"):
            wanted = min(per_kind, 10) if kind == "large" else per_kind
            for number in range(wanted):
                yield _case(random.Random(f"{seed}/{part}/{kind}/{language}/{number}"), part, kind, language, number)


def _case(rng: random.Random, part: str, kind: str, language: str, number: int) -> Case:
    known = [business for business in businesses(part) if business.language == language]
    for _ in range(MAX_TRIES):
        business = rng.choice(known)
        make = Make(business, schema_of(business, rng), instance_of(business, rng))
        broken = _several(rng, make) if kind == "several at once" else KINDS[kind](rng, make)
        if broken is not None:
            break
    else:
        raise RuntimeError(f"no object can have the fault {kind!r}")
    return Case(
        id=f"{kind}/{language}/{number}",
        kind=kind,
        language=language,
        schema_name=business.name,
        text=broken.text,
        schema=broken.schema or make.schema,
        truth=make.instance if broken.truth is None else broken.truth,
        source=broken.source,
        anchors=broken.anchors,
        determined=broken.determined,
    )


def _several(rng: random.Random, make: Make) -> Broken | None:
    """Two faults of values, in prose or with bad punctuation."""
    value = make.instance
    for fault in rng.sample(SEVERAL, 2):
        broken = fault(rng, Make(make.business, make.schema, value))
        if broken is None:
            return None
        value = json.loads(broken.text)
        if value.keys() != make.instance.keys() and fault is not SEVERAL[-1]:
            return None
        if value.keys() != make.instance.keys():
            break
    return KINDS[rng.choice(WRAPPERS)](rng, Make(make.business, make.schema, value))
