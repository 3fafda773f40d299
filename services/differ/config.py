"""The `differ` section of the configuration."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from stagemesh.runtime.config import ConfigError, Section
from stagemesh.runtime.mesh_config import MeshConfig

SCHEMES = ("sqlite", "postgresql+psycopg")


class DifferConfig(Section):
    listen: str = "127.0.0.1:50057"
    """`host:port` of the health service."""
    database_url: str = ""
    """`sqlite:///FILE` or `postgresql://USER:PASSWORD@HOST/DATABASE`; empty: `differ/shadow.db` in the state folder."""
    max_in_flight: int = Field(default=2, ge=1, le=256)
    """Answers that the candidate produces side by side."""
    max_attempts: int = Field(default=5, ge=1)
    """Failures after which an answer gets a row with the error instead of a comparison. Waiting does not count."""
    max_backoff_s: float = Field(default=10.0, gt=0)
    """Longest pause between two looks at a candidate engine or a database that is away."""
    candidate_timeout_s: float = Field(default=300.0, gt=0)
    """Deadline of one candidate answer."""
    default_max_tokens: int = Field(default=512, ge=1)
    """Length limit of the candidate's answer where the request sets none."""
    max_text_chars: int = Field(default=100_000, ge=100)
    """Longer texts are cut in the rows, and compared as cut."""
    max_rows: int = Field(default=100_000, ge=1)
    """Rows kept; the oldest go first."""
    retention_days: float = Field(default=30.0, gt=0)
    """Age after which rows are deleted."""
    prune_interval_s: float = Field(default=60.0, gt=0)
    """Pause between two deletions of what is too old or too much."""


def database_url(config: DifferConfig, mesh: MeshConfig) -> str:
    """The URL of the database in SQLAlchemy's spelling; makes the folder of the default one.

    Raises ConfigError when there is neither a URL nor a state folder, or the kind of database is not supported.
    """
    url = config.database_url
    if not url:
        if mesh.state_dir is None:
            raise ConfigError("differ.database_url: set it, or state_dir, so that the differ knows where to write")
        folder = mesh.state_dir.expanduser() / "differ"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return f"sqlite:///{Path(folder / 'shadow.db').absolute()}"
    for plain in ("postgresql", "postgres"):
        if url.startswith(f"{plain}://"):
            url = f"postgresql+psycopg://{url.removeprefix(f'{plain}://')}"
    if url.partition("://")[0] not in SCHEMES:
        raise ConfigError("differ.database_url: must begin with sqlite:/// or postgresql://")
    return url
