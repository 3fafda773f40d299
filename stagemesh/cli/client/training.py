"""What the commands that train and judge adapters share: PyTorch, the model, and the cases that were collected."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from stagemesh.cli.exits import CommandError, Exit
from stagemesh.cli.mesh_access import find_mesh
from stagemesh.cli.settings_option import read_mesh_config

if TYPE_CHECKING:
    from services.corrector.training.examples import Told
    from services.corrector.training.store import CaseStore
    from stagemesh.models.store import ModelFiles

STORE = "corrections.sqlite"


def require_torch(threads: int) -> None:
    try:
        import torch
    except ImportError:
        raise CommandError('training needs PyTorch: pip install "stagemesh[train]"', Exit.USAGE) from None
    torch.set_num_threads(threads)


def model_files(config: Path | None) -> ModelFiles:
    from stagemesh.models.store import locate

    mesh = read_mesh_config(config)
    return locate(mesh, mesh.default_model)


def case_store(state: Path | None) -> CaseStore:
    from services.corrector.training.store import CaseStore

    where, _ = find_mesh(state)
    return CaseStore(where.path / STORE)


def own_cases(state: Path | None, tenant_id: str | None, *, held_out: bool) -> list[Told]:
    from services.corrector.training.examples import told_of

    if not tenant_id:
        return []
    store = case_store(state)
    try:
        return [told_of(*case) for case in store.certain(tenant_id, held_out=held_out)]
    finally:
        store.close()


def held_out(state: Path | None, tenant_id: str) -> list[Told]:
    """A tenant's cases for evaluation; none for no tenant. Raises CommandError where it has none."""
    own = own_cases(state, tenant_id, held_out=True)
    if tenant_id and not own:
        raise CommandError(f"nothing certain is held out of {tenant_id}; see `stagemesh corrector status`", Exit.USAGE)
    return own


def num_erased_since(state: Path | None, tenant_id: str, trained_ms: int) -> int:
    """Cases that an adapter trained then may have learnt and that were erased since; 0 for one of nobody's texts."""
    if not tenant_id or not trained_ms:
        return 0
    store = case_store(state)
    try:
        return store.num_deleted_since(tenant_id, trained_ms)
    finally:
        store.close()
