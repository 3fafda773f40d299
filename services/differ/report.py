"""What the rows say, for `stagemesh shadow report`. Needs SQLAlchemy and nothing else of the differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, case, func, inspect, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from services.differ.table import open_database, shadow_pairs
from stagemesh.runtime.errors import Unavailable

DRIFT_BELOW = 0.92
"""A pair less similar than this counts as drift."""
BUCKETS = (("0", 0, 0), ("1-3", 1, 3), ("4-15", 4, 15), ("16-63", 16, 63), ("64+", 64, 2**31 - 1))
"""Label, first and last position of each bar of the histogram."""
EXAMPLE_CHARS = 300

columns = shadow_pairs.c


@dataclass(frozen=True, kw_only=True)
class Example:
    tenant_id: str
    request_id: str
    similarity: float
    first_divergent_token: int | None
    stable_text: str
    candidate_text: str


@dataclass(frozen=True, kw_only=True)
class Report:
    rows: int
    compared: int
    """Rows with a candidate answer; all figures below are about these."""
    errors: dict[str, int]
    """Rows without one, by reason."""
    mean_similarity: float | None
    p50_similarity: float | None
    p10_similarity: float | None
    """A tenth of the pairs is less similar than this."""
    drift_share: float | None
    """Share of pairs less similar than 0.92."""
    identical_share: float | None
    """Share of pairs equal token for token."""
    divergence_histogram: dict[str, int]
    """Position of the first different token → pairs; pairs without a difference are under `none`."""
    latency_ratio: float | None
    """Candidate's total time by the stable answers' total time."""
    worst: tuple[Example, ...]
    """The least similar pairs, texts shortened."""


def report(database_url: str, since: datetime | None = None, *, num_examples: int = 5) -> Report:
    """Sum up the pairs compared since `since` (all of them by default). `database_url` as of `config.database_url`.

    Raises Unavailable (DATABASE_UNAVAILABLE). A database into which no differ has written yet gives an empty report.
    """
    engine = open_database(database_url)
    try:
        with engine.connect() as connection:
            if not inspect(connection).has_table(shadow_pairs.name):
                return _empty()
            return _report(connection, () if since is None else (columns.compared_at >= since,), num_examples)
    except SQLAlchemyError as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        raise Unavailable("DATABASE_UNAVAILABLE", f"the differ's database cannot be read: {cause}") from error
    finally:
        engine.dispose()


def _report(connection: Connection, wanted: Sequence[ColumnElement[bool]], num_examples: int) -> Report:
    compared = (*wanted, columns.similarity.is_not(None))
    by_error = select(columns.error, func.count()).where(*wanted, columns.similarity.is_(None)).group_by(columns.error)
    errors: dict[str, int] = {reason: count for reason, count in connection.execute(by_error)}  # noqa: C416  typed rows
    ordered = select(columns.similarity).where(*compared).order_by(columns.similarity)
    similarities = [float(value) for value in connection.scalars(ordered)]
    count = len(similarities)
    if not count:
        return Report(**{**vars(_empty()), "rows": sum(errors.values()), "errors": errors})
    histogram = _histogram(connection, compared)
    totals = select(func.sum(columns.candidate_total_us), func.sum(columns.stable_total_us)).where(*compared)
    candidate_us, stable_us = connection.execute(totals).one()
    return Report(
        rows=count + sum(errors.values()),
        compared=count,
        errors=errors,
        mean_similarity=sum(similarities) / count,
        p50_similarity=percentile(similarities, 50),
        p10_similarity=percentile(similarities, 10),
        drift_share=sum(value < DRIFT_BELOW for value in similarities) / count,
        identical_share=histogram["none"] / count,
        divergence_histogram=histogram,
        latency_ratio=float(candidate_us) / float(stable_us) if stable_us else None,
        worst=_worst(connection, compared, num_examples),
    )


def percentile(ordered: Sequence[float], percent: int) -> float:
    """The value below or at which `percent` of the ascending values lie (nearest rank)."""
    return ordered[max(0, -(-percent * len(ordered) // 100) - 1)]


def _histogram(connection: Connection, compared: Sequence[ColumnElement[bool]]) -> dict[str, int]:
    position = columns.first_divergent_token
    bucket = case(*((position.between(first, last), label) for label, first, last in BUCKETS), else_="none")
    grouped = select(bucket, func.count()).where(*compared).group_by(bucket)
    counted: dict[str, int] = {label: count for label, count in connection.execute(grouped)}  # noqa: C416  typed rows
    return {label: counted.get(label, 0) for label in ("none", *(label for label, _, _ in BUCKETS))}


def _worst(connection: Connection, compared: Sequence[ColumnElement[bool]], num_examples: int) -> tuple[Example, ...]:
    fields: tuple[ColumnElement[Any], ...] = (
        columns.tenant_id,
        columns.request_id,
        columns.similarity,
        columns.first_divergent_token,
        func.substr(columns.stable_text, 1, EXAMPLE_CHARS).label("stable_text"),
        func.substr(columns.candidate_text, 1, EXAMPLE_CHARS).label("candidate_text"),
    )
    query = select(*fields).where(*compared).order_by(columns.similarity, columns.compared_at).limit(num_examples)
    return tuple(Example(**row) for row in connection.execute(query).mappings())


def _empty() -> Report:
    return Report(
        rows=0,
        compared=0,
        errors={},
        mean_similarity=None,
        p50_similarity=None,
        p10_similarity=None,
        drift_share=None,
        identical_share=None,
        divergence_histogram={},
        latency_ratio=None,
        worst=(),
    )
