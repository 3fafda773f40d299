"""Fixtures that several areas share."""

from __future__ import annotations

import signal

import pytest
import structlog

from stagemesh.models.pull import pull
from stagemesh.models.store import ModelFiles
from stagemesh.runtime.config import read_source
from stagemesh.runtime.mesh_config import MeshConfig

# The library's own default shows the locals of every frame of a logged exception: tenths of a second each.
structlog.configure(
    processors=[
        structlog.stdlib.add_log_level,
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ]
)


@pytest.fixture(scope="session")
def default_model_files() -> ModelFiles:
    """The default model, pulled into the user's cache once."""
    return pull(read_source(environ={}).shared(MeshConfig))


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """A shell starts what runs in its background with SIGINT ignored, and children would inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
