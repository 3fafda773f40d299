"""The supervisor's process, which `stagemesh up` starts: `python -P -m stagemesh.cli.supervisor OPTIONS_JSON`."""

from __future__ import annotations

import os

os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"  # before gRPC is loaded: children are made by exec alone

import argparse
import ctypes
import signal
import sys

from pydantic import ValidationError

from stagemesh.cli.supervisor.launcher import PR_SET_PDEATHSIG
from stagemesh.cli.supervisor.lock import AlreadyRunning
from stagemesh.cli.supervisor.mesh import run_mesh
from stagemesh.cli.supervisor.options import UpOptions
from stagemesh.cli.supervisor.ports import NoFreePort
from stagemesh.runtime.config import ConfigError
from stagemesh.runtime.errors import die


def stop_with_parent() -> None:
    """Stop the mesh when the command it belongs to dies without a word (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m stagemesh.cli.supervisor", description=__doc__)
    parser.add_argument("options", help="UpOptions as JSON")
    parser.add_argument("--attached", action="store_true", help="stop when the parent dies")
    arguments = parser.parse_args()
    if arguments.attached:
        stop_with_parent()
    try:
        run_mesh(UpOptions.model_validate_json(arguments.options))
    except (ConfigError, AlreadyRunning, NoFreePort, ValidationError) as error:
        die(str(error))


if __name__ == "__main__":
    main()
