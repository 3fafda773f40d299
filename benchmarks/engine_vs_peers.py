"""Stagemesh's engine beside other engines on this machine: same weights, threads and token counts, alternating runs.

    python benchmarks/engine_vs_peers.py [--json] [--quick] [--peers llama_cpp,openvino] [--threads 1,2]

Peers are installed into the user's cache folder at the first call (4 GB; half an hour, most of it compiling
llama.cpp). A peer that does not install or run here is reported with its error. A full run writes
`benchmarks/results/engine_vs_peers-<cpu>.json` and the README's figure. docs/decisions/0125 tells what makes it fair.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.draw_peers import draw
from benchmarks.lock import ROOT, benchmark_lock
from benchmarks.machine import describe_machine, machine_slug
from benchmarks.peers import (
    llama_cpp,
    onnxruntime_genai,
    openvino_genai,
    stagemesh_engine,
    transformers_torch,
    vllm_cpu,
)
from benchmarks.peers.cache import say
from benchmarks.peers.case import CASES, QUICK_CASES
from benchmarks.peers.contender import Contender, PeerError
from benchmarks.peers.report import as_json, table
from benchmarks.peers.rounds import Rounds, Runs
from stagemesh.models.store import BUILTIN_FILE, BUILTIN_SHA256

PEERS: dict[str, Callable[[], Sequence[Contender]]] = {
    "llama_cpp": llama_cpp.contenders,
    "openvino": openvino_genai.contenders,
    "onnxruntime": onnxruntime_genai.contenders,
    "vllm": vllm_cpu.contenders,
    "transformers": transformers_torch.contenders,
}
FIGURE = ROOT / "docs" / "images" / "engine_vs_peers.svg"


def main() -> None:
    args = parse_arguments()
    peers = [contender for family in args.peers for contender in PEERS[family]()]
    contenders: list[Contender] = [*stagemesh_engine.contenders(), *peers]
    runs = Runs()
    versions = install(contenders, runs)
    if args.install_only:
        return
    cases = QUICK_CASES if args.quick else CASES
    started_s = time.monotonic()
    with benchmark_lock(), contextlib.ExitStack() as closing:
        about = describe(args.threads, versions)
        for contender in contenders:
            closing.callback(contender.close)
        for index, threads in enumerate(args.threads):
            rounds = Rounds(
                contenders=contenders, cases=cases, threads=threads, protected=stagemesh_engine.NAME, runs=runs
            )
            share = share_of_time(args.threads, index)
            rounds.run(1 if args.quick else args.rounds, started_s + 60.0 * args.minutes * share)
    result = as_json(runs, stagemesh_engine.NAME, about | {"minutes": round((time.monotonic() - started_s) / 60, 1)})
    publish(args, result)
    words = table(result, cases, stagemesh_engine.NAME)
    print(words, file=sys.stderr if args.json else sys.stdout)
    if args.json:
        print(json.dumps(result))


def parse_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="end stdout with one JSON object")
    parser.add_argument("--quick", action="store_true", help="a few tokens, one round: shows that all engines run")
    parser.add_argument("--peers", type=_families, default=list(PEERS), help=f"some of {','.join(PEERS)}")
    parser.add_argument("--threads", type=_numbers, default=[1, 2], help="numbers of threads, e.g. 1,2")
    parser.add_argument("--rounds", type=int, default=5, help="alternating rounds at most")
    parser.add_argument(
        "--minutes", type=float, default=18.0, help="for all rounds; the first ones are completed anyway"
    )
    parser.add_argument("--install-only", action="store_true", help="bring the peers and stop")
    parser.add_argument("--output", type=Path, help="where the results go instead of benchmarks/results")
    return parser.parse_args(argv)


def install(contenders: Sequence[Contender], runs: Runs) -> dict[str, str]:
    """Bring what is missing; versions of all that is there. A failure goes into `runs.errors`."""
    versions: dict[str, str] = {}
    for contender in contenders:
        try:
            contender.install()
            versions |= contender.versions()
        except PeerError as error:
            say(contender.name, str(error))
            runs.errors[contender.name] = str(error)
    return versions


def describe(threads: Sequence[int], versions: dict[str, str]) -> dict[str, Any]:
    return {
        "date": time.strftime("%Y-%m-%d"),
        "machine": describe_machine(),
        "versions": versions,
        "model": {"file": BUILTIN_FILE, "sha256": BUILTIN_SHA256},
        "threads": list(threads),
    }


def share_of_time(threads: Sequence[int], index: int) -> float:
    """Of all the time, what may have gone by after the rounds of entry `index`: half the threads take twice as long."""
    needs = [1.0 / number for number in threads]
    return sum(needs[: index + 1]) / sum(needs)


def publish(args: argparse.Namespace, result: dict[str, Any]) -> None:
    """Write results and figure of a full run; of others only where `--output` says."""
    is_full = not args.quick and set(args.peers) == set(PEERS)
    path: Path | None = args.output
    if path is None and is_full:
        path = ROOT / "benchmarks" / "results" / f"engine_vs_peers-{machine_slug()}.json"
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    figure = FIGURE if args.output is None else path.with_suffix(".svg")
    figure.parent.mkdir(parents=True, exist_ok=True)
    figure.write_text(draw(result), encoding="utf-8")
    say("results", f"{path}, {figure}")


def _families(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    if unknown := [name for name in names if name not in PEERS]:
        raise argparse.ArgumentTypeError(f"no peer named {', '.join(unknown)}; there are {', '.join(PEERS)}")
    return names


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


if __name__ == "__main__":
    main()
