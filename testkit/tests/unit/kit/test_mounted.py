from pathlib import Path

from konverge_testing.mounted import write_mounted

FILES = {"token": b"one", "ca.crt": b"authority", "namespace": b"web"}


def test_the_files_are_links_through_one_directory(tmp_path: Path) -> None:
    volume = tmp_path / "serviceaccount"
    write_mounted(volume, FILES)
    assert {name: (volume / name).read_bytes() for name in FILES} == FILES
    assert (volume / "token").readlink() == Path("..data/token")
    assert (volume / "..data").is_symlink()


def test_a_second_call_exchanges_all_files_and_keeps_the_links(tmp_path: Path) -> None:
    write_mounted(tmp_path, FILES)
    before = (tmp_path / "..data").readlink()
    write_mounted(tmp_path, {**FILES, "token": b"two"})
    assert (tmp_path / "token").read_bytes() == b"two"
    assert (tmp_path / "..data").readlink() != before
    assert not (tmp_path / before).exists()
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith("..")) == sorted(FILES)


def test_mounted_files_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    write_mounted(tmp_path, FILES)
    assert (tmp_path / "token").stat().st_mode & 0o077 == 0
