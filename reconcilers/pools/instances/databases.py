"""Which database an instance has. Pure."""

from __future__ import annotations

from typing import Literal, TypeAlias

from konverge.crds.pools_v1alpha1 import InstanceSettings

__all__ = ["Engine", "engine_of", "unused_by_sqlite"]

Engine: TypeAlias = Literal["sqlite", "postgresql", "mysql"]


def engine_of(spec: InstanceSettings) -> Engine:
    """Return the database of a spec; a managed database without a type is PostgreSQL, the only type that can be managed.

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


def unused_by_sqlite(spec: InstanceSettings) -> str:
    """Return the problem of a spec whose database is SQLite although it has other fields of a database, "" if there is none.

    >>> from konverge.crds.pools_v1alpha1 import Database
    >>> unused_by_sqlite(InstanceSettings(database=Database(credentials_secret="db")))
    'the database is SQLite, which has no use for database.credentialsSecret: set database.type to postgresql or mysql, or remove the field'
    """
    database = spec.database
    if database is None or engine_of(spec) != "sqlite":
        return ""
    unused = {
        "managed": database.managed,
        "credentialsSecret": database.credentials_secret,
        "postgres": database.postgres is not None,
    }
    given = " and ".join(f"database.{name}" for name, value in unused.items() if value)
    if not given:
        return ""
    other = "postgresql" if database.managed or database.postgres is not None else "postgresql or mysql"
    return f"the database is SQLite, which has no use for {given}: set database.type to {other}, or remove the field"
