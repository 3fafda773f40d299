"""What the caller of `stagemesh up` asked for; passed to the supervisor's process as JSON."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field


class UpOptions(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    config: Path | None = None
    """`stagemesh.yaml`; None: `$STAGEMESH_CONFIG`, or defaults alone."""
    state: Path | None = None
    engines: int | None = Field(default=None, ge=1)
    """Engines for the default model, whatever `serve` says of it."""
    grpc_port: int | None = Field(default=None, ge=1, le=65_535)
    http_port: int | None = Field(default=None, ge=1, le=65_535)
