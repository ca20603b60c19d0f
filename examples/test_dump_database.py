"""The test of the script that dumps a database: functions of the test run in the place of the commands and of the exporter."""

from io import BytesIO

import pytest
from dump_database import EXPORTER, dump, is_up

import konverge as kv
from konverge_testing import Lab
from konverge_testing.apiserver import AcceptedConnection, RunningCommand

POD = kv.kind("v1", "Pod")


async def pg_dump(command: RunningCommand) -> int:
    assert (command.container, command.args) == ("postgres", ("pg_dump", "shop"))
    await command.stdout(b"CREATE TABLE orders ();")
    return 0


async def exporter(connection: AcceptedConnection) -> None:
    assert (await connection.read()).startswith(b"GET /metrics ")
    await connection.write(b"HTTP/1.0 200 OK\r\n\r\n# TYPE pg_up gauge\npg_up 1\n")


async def fails(command: RunningCommand) -> int:
    await command.stderr(b"no such database")
    return 1


async def test_a_database_that_is_up_is_dumped(lab: Lab) -> None:
    assert lab.server is not None
    containers = [{"name": name, "image": name} for name in ("postgres", "exporter")]
    await lab.create(POD.new("db-0", spec={"containers": containers}))
    lab.server.commands.serve(lab.namespace, "db-0", pg_dump, container="postgres")
    lab.server.ports.serve(lab.namespace, "db-0", EXPORTER, exporter)
    file = BytesIO()
    assert await is_up(lab.client, lab.namespace, "db-0")
    await dump(lab.client, lab.namespace, "db-0", file)
    assert file.getvalue() == b"CREATE TABLE orders ();"

    lab.server.commands.serve(lab.namespace, "db-0", fails, container="postgres")
    with pytest.raises(SystemExit, match="pg_dump ended with 1"):
        await dump(lab.client, lab.namespace, "db-0", file)
