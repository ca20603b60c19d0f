"""The test of a deletion: nothing is left in the other namespace (docs/how-to/test-deletion.md)."""

import pytest
from howto_other_namespace import CONFIG_MAP, DIRECTORY, Member, MemberSpec, build

import konverge as kv
from konverge_testing import Lab


@pytest.mark.scenario
async def test_a_deleted_member_leaves_no_entry(lab: Lab) -> None:
    lab.may_differ(CONFIG_MAP, why="an entry is named by the uid of its member")
    await lab.namespace_also(DIRECTORY)
    await lab.start(build, settings=kv.ManagerSettings(namespace=None, strict=True))
    await lab.create(Member.new("ada", spec=MemberSpec(mail="ada@example.com")))
    member = await lab.until(Member, "ada", kv.is_true("Ready"))
    entry = await lab.get(CONFIG_MAP, f"member-{member.uid}", DIRECTORY)
    await lab.delete(Member, "ada")
    await lab.until_gone(Member, "ada")
    assert await lab.client.find(CONFIG_MAP, entry.name, DIRECTORY) is None
