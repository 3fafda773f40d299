"""Fetch a repository of the Hugging Face hub: weights in safetensors, configuration and tokenizer, nothing else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from stagemesh.models.download import reporting_full_disk
from stagemesh.models.errors import PullError
from stagemesh.models.progress import OnProgress, Progress
from stagemesh.models.revision import sha256_of
from stagemesh.models.store import MANIFEST

PATTERNS = (
    "*.safetensors",
    "*.safetensors.index.json",
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "LICENSE*",
)


def pull_repository(repository: str, revision: str | None, folder: Path, on_progress: OnProgress) -> None:
    """Bring `ORG/NAME` at `revision` (a branch, tag or commit) into `folder`, and write its manifest last.

    A folder with a manifest is complete and left alone. Raises PullError where the hub cannot be reached, the
    repository does not exist or is gated, or it lacks what is needed.
    """
    if (folder / MANIFEST).is_file():
        return
    on_progress(Progress(step="find"))
    commit = _download(repository, revision, folder)
    missing = [file for file in ("config.json", "tokenizer.json") if not (folder / file).is_file()]
    if not any(folder.glob("*.safetensors")):
        missing.append("*.safetensors")
    if missing:
        raise PullError(f"hf:{repository} lacks {', '.join(missing)}, so it cannot be served")
    hashes = _hash_all(folder, on_progress)
    shutil.rmtree(folder / ".cache", ignore_errors=True)  # the hub client's own notes
    with reporting_full_disk(folder):
        part = folder / f"{MANIFEST}.part"
        part.write_text(json.dumps({"repository": repository, "commit": commit, "sha256": hashes}, indent=1))
        part.replace(folder / MANIFEST)


def _download(repository: str, revision: str | None, folder: Path) -> str:
    try:
        import huggingface_hub
        from huggingface_hub import errors
    except ImportError:
        raise PullError("models of the hub need the package huggingface-hub: pip install 'stagemesh[hub]'") from None
    gone: tuple[type[Exception], ...] = (errors.RepositoryNotFoundError, errors.RevisionNotFoundError)
    try:
        info: Any = huggingface_hub.HfApi().model_info(repository, revision=revision, timeout=30)
        huggingface_hub.snapshot_download(
            repository, revision=info.sha, local_dir=folder, allow_patterns=list(PATTERNS), max_workers=4
        )
    except gone as error:
        raise PullError(f"hf:{repository} at {revision or 'main'} is not on the hub, or not for you: {error}") from None
    except errors.GatedRepoError:
        raise PullError(f"hf:{repository} is gated: accept its terms on the hub and set HF_TOKEN") from None
    except errors.HFValidationError as error:
        raise PullError(f"hf:{repository} is no repository name: {error}") from None
    except Exception as error:  # noqa: BLE001  its versions raise the errors of different HTTP libraries
        raise PullError(f"the hub could not be reached for hf:{repository}: {error}") from None
    return str(info.sha)


def _hash_all(folder: Path, on_progress: OnProgress) -> dict[str, str]:
    paths = sorted(path for path in folder.iterdir() if path.is_file())
    total, done = sum(path.stat().st_size for path in paths), 0
    hashes = {}

    def report(num_bytes: int) -> None:
        nonlocal done
        done += num_bytes
        on_progress(Progress(step="verify", done_bytes=done, total_bytes=total))

    for path in paths:
        hashes[path.name] = sha256_of(path, report)
    return hashes
