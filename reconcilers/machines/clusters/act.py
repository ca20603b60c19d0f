"""Creates the pool of a group; the API server's response decides whether the group is imported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from konverge.crds.decoding import misfits, path_of, problem_words
from konverge.crds.machines_v1beta1 import NstanceCluster
from konverge.errors import AlreadyExists, BadRequest, Invalid
from konverge.reconcilers.machines.clusters.imports import ImportedPool
from konverge.reconcilers.machines.clusters.render import imported_pool
from konverge.reconcilers.machines.settings import MachineSettings

if TYPE_CHECKING:
    from konverge.runtime import Context

__all__ = ["ImportProblem", "import_pool"]


@dataclass(frozen=True, slots=True)
class ImportProblem:
    """The reason why a group is not imported."""

    message: str
    refused: bool = False
    """Whether the API server refused the pool, which a webhook may admit later."""


async def import_pool(
    imported: ImportedPool, cluster: NstanceCluster, ctx: Context[NstanceCluster], settings: MachineSettings
) -> ImportProblem | None:
    """Create the pool of a group; None if it was created."""
    try:
        pool = imported_pool(imported, namespace=cluster.namespace, cluster=cluster.name, labels=settings.filter_labels)
        await ctx.client.create(pool)
    except AlreadyExists:
        return ImportProblem("the name is taken by a pool of another group")
    except ValidationError as error:  # the server has other limits than the definition
        first = misfits(error)[0]
        return ImportProblem(f"{path_of(first['loc'])}: {problem_words(first)}")
    except (BadRequest, Invalid) as error:
        return ImportProblem(str(error), refused=True)
    return None
