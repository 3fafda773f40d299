"""Answers as a person sees them: the text as it streams, the stages as a table, remarks on stderr."""

from __future__ import annotations

import sys
from typing import Any

from rich.table import Table
from rich.text import Text

from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.cli import console
from stagemesh.cli.client import answer

STATUS_STYLES = {"ok": "green", "degraded": "yellow", "skipped": "dim", "failed": "bold red"}


class AnswerPrinter:
    """Writes the answer to stdout as it arrives, or only at its end where it may still be corrected."""

    def __init__(self, *, stream: bool) -> None:
        self._stream = stream
        self._shown = ""

    def event(self, event: gateway_pb2.Event) -> None:
        kind = event.WhichOneof("kind")
        if kind == "delta" and event.delta.index == 0 and self._stream:
            self._write(event.delta.text)
        elif kind == "queued" and event.queued.deferred:
            console.err.print(f"Deferred: `stagemesh watch {event.queued.request_id}` follows it.", style="yellow")
        elif kind == "queued" and event.queued.position:
            wait = f", about {event.queued.estimated_wait_ms / 1000:.0f} s" if event.queued.estimated_wait_ms else ""
            console.err.print(f"Queued behind {event.queued.position}{wait}.", style="dim")

    def final(self, final: gateway_pb2.Final) -> None:
        """Show what the final event says beyond what has streamed: it is authoritative."""
        text = final.choices[0].text if final.choices else ""
        if self._shown and not text:  # it ended without an answer
            text = self._shown
        if self._shown and self._shown != text:
            self._write("\n")
            console.err.print("The answer was replaced by:", style="yellow")
            self._shown = ""
        self._write(text[len(self._shown) :])
        if self._shown:
            self._write("\n")
        remark(final)

    def interrupted(self) -> None:
        """End the line of an answer that was cancelled."""
        if self._shown:
            self._write("\n")

    def _write(self, text: str) -> None:
        self._shown += text
        sys.stdout.write(text)
        sys.stdout.flush()


def remark(final: gateway_pb2.Final) -> None:
    """Say on stderr what a caller should know: outcome, truncation, validation."""
    value = answer.as_json(final)
    if value["outcome"] == "degraded":
        console.err.print(f"degraded: {', '.join(_degraded(value['stages']))}", style="yellow")
    elif value["outcome"] not in {"complete", "deferred"}:  # where to find a deferred answer was said when it was
        reason = f": {final.error.message or final.error.reason}" if final.HasField("error") else ""
        console.err.print(f"{value['outcome']}{reason}", style="yellow")
    if final.passages:
        titles = dict.fromkeys(used.title or used.document_id for used in final.passages)
        console.err.print(f"drew on: {', '.join(titles)}", style="dim")
    if value["finish_reason"] == "length":
        console.err.print("The answer was cut at its token limit; --max-tokens raises it.", style="yellow")
    if final.cut_messages:
        console.err.print(f"{final.cut_messages} old messages did not fit and were left out.", style="yellow")
    for issue in (issue for issue in value["validation"]["errors"] if issue["rule"] != "truncated"):
        console.err.print(f"{issue['pointer'] or 'the answer'}: {issue['message']}", style="red")
    for change in value["validation"]["corrections"]:
        console.err.print(
            f"corrected {change['pointer'] or 'the text'}: {change['reason'] or change['step']}", style="yellow"
        )


def _degraded(stages: list[dict[str, Any]]) -> list[str]:
    """`correct (verdict)` for each stage that took its fallback."""
    return [
        stage["name"] + (f" ({stage['fallback']})" if stage["fallback"] else "")
        for stage in stages
        if stage["status"] in {"degraded", "failed"}
    ]


def stage_table(final: gateway_pb2.Final) -> Table:
    """All twelve stages with status and time."""
    instances = {report.stage: report.instance for report in final.stages}
    view = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("stage", "status", "ms", "attempts", "where", "note"):
        view.add_column(name, justify="right" if name in {"ms", "attempts"} else "left")
    for stage in answer.stages(final):
        number = common_pb2.Stage.Value(f"STAGE_{stage['name'].upper()}")
        view.add_row(
            stage["name"],
            Text(stage["status"] or "", style=STATUS_STYLES.get(stage["status"] or "", "")),
            f"{stage['duration_ms']:.2f}" if stage["status"] != "skipped" else "",
            str(stage["attempts"] or ""),
            instances.get(number, ""),
            ": ".join(part for part in (stage["fallback"], stage["detail"]) if part),
        )
    return view


def summary(final: gateway_pb2.Final) -> str:
    """One line of figures."""
    usage = final.usage
    reused = f", {usage.cached_tokens} reused" if usage.cached_tokens else ""
    decode_s = (final.total_us - final.ttft_us) / 1e6
    timed = usage.completion_tokens > 1 and decode_s > 0
    speed = f", {(usage.completion_tokens - 1) / decode_s:.0f} tokens/s" if timed else ""
    return (
        f"{final.model.model}: {usage.prompt_tokens} prompt tokens{reused}, {usage.completion_tokens} of the answer; "
        f"first token after {final.ttft_us / 1000:.0f} ms, all after {final.total_us / 1000:.0f} ms{speed}"
    )
