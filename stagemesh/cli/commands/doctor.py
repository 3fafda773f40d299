"""`stagemesh doctor`"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from stagemesh.cli.exits import Exit
from stagemesh.cli.mesh_access import state_option
from stagemesh.cli.settings_option import config_option

STYLES = {"ok": "green", "risk": "yellow", "fail": "bold red"}


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option("--grpc-port", type=click.IntRange(1, 65_535), help="As for `stagemesh up`.")
@click.option("--http-port", type=click.IntRange(1, 65_535), help="As for `stagemesh up`.")
@config_option
@state_option
def command(
    as_json: bool, grpc_port: int | None, http_port: int | None, config: Path | None, state: Path | None
) -> None:
    """Check this machine for what would go wrong, and say what to do about each.

    Exit code 0 when a mesh can run here (risks are told), 1 when something must be mended first.
    """
    from rich.text import Text

    from stagemesh.cli import console
    from stagemesh.cli.doctor.checks import run_checks
    from stagemesh.cli.supervisor.options import UpOptions

    options = UpOptions(config=config, state=state, grpc_port=grpc_port, http_port=http_port)
    findings = []
    for finding in run_checks(options):
        findings.append(finding)
        if not as_json:
            line = Text(f"{finding.level.value:5}", style=STYLES[finding.level.value])
            console.out.print(line.append(f"{finding.name}: {finding.detail}", style="default"))
            if finding.fix:
                console.out.print(f"     → {finding.fix}")
    failed = any(finding.level == "fail" for finding in findings)
    if as_json:
        console.print_json({"ok": not failed, "findings": [asdict(finding) for finding in findings]})
    raise SystemExit(Exit.FAILED if failed else Exit.OK)
