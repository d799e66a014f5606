"""The models that the service has loaded."""

from __future__ import annotations

from fastapi import APIRouter

from app.dependencies import RegistryDep
from app.schemas.models import ModelDetail, ModelList, ModelSummary
from app.schemas.problems import Problem

router = APIRouter(prefix="/models", tags=["models"])


@router.get("", summary="Every model")
async def index(registry: RegistryDep) -> ModelList:
    """The names that `model` in a request takes."""
    return ModelList(models=[ModelSummary(**entry.summary()) for entry in registry])


@router.get("/{name}", summary="One model, with its card", responses={404: {"model": Problem}, 422: {"model": Problem}})
async def show(name: str, registry: RegistryDep) -> ModelDetail:
    """What the model was trained on, how good it is, and what it is not good for."""
    return ModelDetail(**registry.get(name).detail())
