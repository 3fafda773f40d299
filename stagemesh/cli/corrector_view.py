"""Adapters in use, as `stagemesh corrector` shows them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from services.corrector.adapters.record import Entry, Record
from services.corrector.adapters.store import Change
from services.corrector.adapters.tally import Tally


def record_json(record: Record, tally: Tally | None = None, stale: Mapping[str, int] | None = None) -> dict[str, Any]:
    """`stale`: erased cases that an adapter may have learnt, by its revision."""

    def shown(entry: Entry | None) -> dict[str, Any] | None:
        if entry is None:
            return None
        num_erased = (stale or {}).get(entry.adapter.revision, 0)
        return {
            "name": entry.adapter.name,
            "generation": entry.adapter.generation,
            "revision": entry.adapter.revision,
            "folder": entry.folder,
            "since_unix_s": entry.since_ms / 1000,
            "erased_since_trained": num_erased,
            "held_out": asdict(entry.judged) if entry.judged else None,
        }

    return {
        "tenant_id": record.scope or None,
        "present": shown(record.present),
        "candidate": shown(record.candidate),
        "canary_share": record.share,
        "live": asdict(tally) if tally else None,
        "previous": [shown(entry) for entry in record.previous],
    }


def change_json(change: Change) -> dict[str, Any]:
    return {
        "at_unix_s": change.at_ms / 1000,
        "what": change.what,
        "tenant_id": change.scope or None,
        "by": change.by,
        "detail": change.detail,
    }


def lines(adapters: Mapping[str, Any]) -> list[str]:
    """Of what `standing` gives."""
    if "problem" in adapters:
        return [f"which adapters are in use is not known: {adapters['problem']}"]
    told = [line for record in adapters["in_use"] for line in _record_lines(record)]
    changes = [
        f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(change['at_unix_s']))}  {change['what']}  "
        f"{change['tenant_id'] or 'shared'}  by {change['by']}: {change['detail']}"
        for change in adapters["changes"]
    ]
    return [*(told or ["no adapter is in use; see `stagemesh corrector candidate`"]), *changes]


def _record_lines(record: Mapping[str, Any]) -> list[str]:
    whose = record["tenant_id"] or "shared"
    present, candidate, live = record["present"], record["candidate"], record["live"]
    told = [f"{whose}  present: {_named(present) if present else 'none'}"]
    if candidate is not None:
        told.append(f"{whose}  candidate: {_named(candidate)}, answers {record['canary_share']:.2%}")
        if held_out := candidate["held_out"]:
            told.append(
                f"{whose}    held out: {held_out['candidate_right']} of {held_out['fields']} fields right, the present "
                f"one {held_out['present_right']}; alone {held_out['only_candidate']} and {held_out['only_present']}"
            )
    if live is not None:
        told.append(
            f"{whose}    beside: {live['compared']} compared, {live['same']} the same; "
            f"proposals {live['candidate_proposals']} and {live['present_proposals']}, "
            f"{live['equal_proposals']} equal; "
            f"failed {live['candidate_failed']} and {live['present_failed']}, {live['skipped']} left out"
        )
        told.append(
            f"{whose}    answered: {live['candidate_answered']}, {live['candidate_valid']} valid, "
            f"{live['candidate_certain']} certain; the present one {live['present_answered']}, "
            f"{live['present_valid']} and {live['present_certain']}"
        )
    return told


def _named(entry: Mapping[str, Any]) -> str:
    stale = entry["erased_since_trained"]
    return f"{entry['name']} generation {entry['generation']} ({entry['revision'][:12]})" + (
        f"; stale: {stale} corrections that it may have learnt were erased since" if stale else ""
    )
