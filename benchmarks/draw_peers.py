"""Draw the comparison with peers from its results, as SVG.

python benchmarks/draw_peers.py benchmarks/results/engine_vs_peers-….json docs/images/engine_vs_peers.svg
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

TITLES = {
    "decode": "one stream, decode",
    "prefill_512": "prompt of 512",
    "prefill_2048": "prompt of 2,048",
    "batch16": "16 requests, 128 + 128",
    "batch64": "64 requests, 128 + 128",
}
OURS = "Stagemesh"
WIDTH, MARGIN, LABEL_WIDTH, GAP = 1180, 16, 128, 18
BAR, ROW, HEAD = 15, 21, 62
INK, FAINT, ACCENT, GREY, PAPER = "#1f2430", "#6b7280", "#2563eb", "#c3c9d4", "#ffffff"


def draw(result: Mapping[str, Any]) -> str:
    """The SVG: a row of panels for each number of threads, a panel for each case, a bar for each engine."""
    entries = {OURS: result["stagemesh"], **result["peers"]}
    height_of_row = HEAD + ROW * len(entries) + 14
    parts = []
    for index, threads in enumerate(map(str, result["threads"])):
        parts.append(_row(entries, threads, top=44 + index * height_of_row))
    height = 44 + height_of_row * len(result["threads"]) + 26
    machine = result["machine"]
    caption = (
        f"Tokens a second, medians of alternating runs, same weights. {machine['cpu']}, {machine['vectors']}, "
        f"{machine['cores']} cores; {result['date']}."
    )
    if result["errors"]:
        caption += f" Did not run here: {', '.join(result['errors'])}."
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
            f'height="{height}" font-family="system-ui, sans-serif" font-size="12">',
            f'<rect width="{WIDTH}" height="{height}" fill="{PAPER}"/>',
            _text(MARGIN, 26, "The engine on a CPU: SmolLM2-135M-Instruct, tokens a second", size=16, weight=600),
            *parts,
            _text(MARGIN, height - 12, caption, fill=FAINT),
            "</svg>",
            "",
        ]
    )


def _row(entries: Mapping[str, Any], threads: str, top: int) -> str:
    cases = [case for case in TITLES if any(threads in entry.get(case, {}) for entry in entries.values())]
    left, panel = MARGIN + LABEL_WIDTH, (WIDTH - 2 * MARGIN - LABEL_WIDTH) // max(len(cases), 1)
    parts = [_text(MARGIN, top + 20, f"{threads} thread{'s' if threads != '1' else ''}", size=13, weight=600)]
    for line, name in enumerate(entries):
        y = top + HEAD - 22 + line * ROW + BAR - 3
        parts.append(_text(left - 10, y, name, anchor="end", weight=600 if name == OURS else 400))
    for index, case in enumerate(cases):
        values = [entry.get(case, {}).get(threads) for entry in entries.values()]
        parts.append(_panel(case, list(entries), values, left + index * panel, top, panel - GAP))
    return "\n".join(parts)


def _panel(case: str, names: Sequence[str], values: Sequence[float | None], left: int, top: int, width: int) -> str:
    highest = max((value for value in values if value), default=1.0)
    parts = [_text(left, top + 20, TITLES[case], fill=FAINT)]
    for line, (name, value) in enumerate(zip(names, values, strict=True)):
        y = top + HEAD - 22 + line * ROW
        if value is None:
            parts.append(_text(left + 2, y + BAR - 3, "–", fill=FAINT))
            continue
        length = max(1.0, (width - 44) * value / highest)
        fill = ACCENT if name == OURS else GREY
        parts.append(f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{BAR}" rx="2" fill="{fill}"/>')
        parts.append(_text(left + length + 5, y + BAR - 3, f"{value:,.0f}", weight=600 if name == OURS else 400))
    return "\n".join(parts)


def _text(
    x: float, y: float, words: str, *, fill: str = INK, size: int = 12, weight: int = 400, anchor: str = "start"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{fill}" font-size="{size}" font-weight="{weight}" '
        f'text-anchor="{anchor}">{escape(words)}</text>'
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("figure", type=Path)
    args = parser.parse_args()
    args.figure.parent.mkdir(parents=True, exist_ok=True)
    args.figure.write_text(draw(json.loads(args.results.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
