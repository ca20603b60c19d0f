"""Tests of a kind in two versions: no field is lost, and both versions work at once."""

from mirror_operator import MIRRORS, Mirror, MirrorSpec, MirrorV1, MirrorV1Spec, Target, build

import konverge as kv
from konverge_testing import Lab, check_round_trips


def test_every_mirror_survives_both_ways() -> None:
    check_round_trips(MIRRORS)


async def test_a_client_of_v1_works_with_the_controller_of_v2(lab: Lab) -> None:
    await lab.start(build)
    await lab.create(MirrorV1.new("docs", spec=MirrorV1Spec(source="git.example.com/docs", target="s3://a")))
    mirror = await lab.until(Mirror, "docs", kv.is_true("Ready"))
    assert [target.url for target in mirror.spec.targets] == ["s3://a"]
    assert (await lab.get(MirrorV1, "docs")).status.copies == 1


async def test_a_change_through_v1_keeps_what_v1_cannot_hold(lab: Lab) -> None:
    await lab.start(build)
    targets = (Target(url="s3://a", region="north"), Target(url="s3://b"))
    await lab.create(Mirror.new("docs", spec=MirrorSpec(source="git.example.com/docs", targets=targets)))
    await lab.patch(MirrorV1, "docs", {"spec": {"source": "git.example.com/handbook"}})
    mirror = await lab.get(Mirror, "docs")
    assert (mirror.spec.source, mirror.spec.targets) == ("git.example.com/handbook", targets)
