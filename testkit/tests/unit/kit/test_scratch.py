import os
from pathlib import Path

import pytest

from konverge_testing.failures import ControlPlaneError
from konverge_testing.scratch import claim, default_root


def test_a_claim_is_a_private_directory(tmp_path: Path) -> None:
    claimed = claim(tmp_path / "root")
    try:
        assert claimed.directory.stat().st_mode & 0o777 == 0o700
        assert claimed.directory.parent == tmp_path / "root"
        assert claimed.directory.parent.stat().st_mode & 0o777 == 0o700
    finally:
        os.close(claimed.lock)


def test_directories_of_living_planes_stay_and_those_of_dead_ones_are_removed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    living, dead = claim(root), claim(root)
    (dead.directory / "etcd").mkdir()
    (dead.directory / "etcd" / "data").touch()
    os.close(dead.lock)
    third = claim(root)
    try:
        assert living.directory.exists()
        assert not dead.directory.exists()
        assert third.directory not in (living.directory, dead.directory)
    finally:
        os.close(living.lock)
        os.close(third.lock)


def test_the_lock_is_not_handed_to_programs(tmp_path: Path) -> None:
    claimed = claim(tmp_path / "root")
    try:
        assert not os.get_inheritable(claimed.lock)
    finally:
        os.close(claimed.lock)


def test_a_root_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with pytest.raises(ControlPlaneError, match="0700"):
        claim(tmp_path)


def test_a_link_in_place_of_the_root_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "root").symlink_to(tmp_path / "real")
    with pytest.raises(ControlPlaneError, match="0700"):
        claim(tmp_path / "root")


def test_every_user_has_a_separate_root() -> None:
    assert default_root().name.endswith(f"-{os.getuid()}")
