"""`stagemesh model verify`: are the bytes on disk still the ones that were pulled?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from stagemesh.models.progress import OnProgress, Progress, ignore_progress
from stagemesh.models.revision import recall, remember, sha256_of
from stagemesh.models.store import ModelFiles, locate, read_manifest
from stagemesh.runtime.mesh_config import MeshConfig


@dataclass(frozen=True, kw_only=True)
class FileCheck:
    path: Path
    sha256: str
    """Of the bytes on disk; empty when the file is missing."""
    expected: str
    """Empty when nothing was recorded, as for a local file that is seen for the first time."""

    @property
    def ok(self) -> bool:
        return bool(self.sha256) and self.expected in {"", self.sha256}


@dataclass(frozen=True, kw_only=True)
class Verification:
    name: str
    checks: tuple[FileCheck, ...]

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks)


def verify(config: MeshConfig, name: str = "", on_progress: OnProgress = ignore_progress) -> Verification:
    """Hash every file of the model again and compare with the pinned or recorded hashes.

    Raises ModelMissing when the model is not here. A wrong file is reported, not deleted.
    """
    files = locate(config, name)
    expected = _expected(files)
    total, done = sum(path.stat().st_size for path in expected if path.is_file()), 0

    def report(num_bytes: int) -> None:
        nonlocal done
        done += num_bytes
        on_progress(Progress(step="verify", done_bytes=done, total_bytes=total))

    checks = []
    for path, known in expected.items():
        actual = sha256_of(path, report) if path.is_file() else ""
        checks.append(FileCheck(path=path, sha256=actual, expected=known))
        if not known and actual:
            remember(path, files.cache_dir, actual)
    return Verification(name=files.name, checks=tuple(checks))


def _expected(files: ModelFiles) -> dict[Path, str]:
    """What is known of each file: pinned, from the pull's manifest, or remembered from an earlier look."""
    if files.pinned_sha256:
        return {files.path: files.pinned_sha256}
    if files.hub_commit:
        manifest = read_manifest(files.path, files.name)
        return {files.path / file: value for file, value in manifest.sha256.items()}
    paths = files.weight_paths()
    if files.kind == "hf":
        paths += [files.path / "config.json", files.path / "tokenizer.json"]
    return {path: recall(path, files.cache_dir) for path in paths}
