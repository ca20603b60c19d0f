"""Which database an instance has. Pure."""

from __future__ import annotations

from typing import Literal, TypeAlias

from konverge.crds.pools_v1alpha1 import InstanceSettings

__all__ = ["Engine", "engine_of"]

Engine: TypeAlias = Literal["sqlite", "postgresql", "mysql"]


def engine_of(spec: InstanceSettings) -> Engine:
    """Return the database of a spec; a managed one that names no type is PostgreSQL, the one that can be managed.

    >>> from konverge.crds.pools_v1alpha1 import Database
    >>> engine_of(InstanceSettings(database=Database(managed=True))), engine_of(InstanceSettings())
    ('postgresql', 'sqlite')
    """
    database = spec.database
    match None if database is None else database.type:
        case None:
            return "postgresql" if database is not None and database.managed else "sqlite"
        case "mysql" | "mariadb":
            return "mysql"
        case "sqlite":
            return "sqlite"
        case _:
            return "postgresql"
