"""Archives whose bytes depend on their files and on one time only."""

import gzip
import io
import tarfile
from collections.abc import Mapping
from typing import TypeAlias

File: TypeAlias = tuple[bytes, bool]
"""The content of a file, and whether it is executable."""


def packed(files: Mapping[str, File], moment: int) -> bytes:
    """Return a gzipped tar archive of files with one time, no owner, and sorted names."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, (content, executable) in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode = len(content), moment, 0o755 if executable else 0o644
            archive.addfile(member, io.BytesIO(content))
    zipped = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=zipped, mtime=moment) as stream:
        stream.write(plain.getvalue())
    return zipped.getvalue()


def repacked(sdist: bytes, moment: int) -> bytes:
    """Return an sdist with the same files: setuptools writes the times and the user of the build into it (SOURCE_DATE_EPOCH is for wheels).

    Raises ValueError for a member that is neither a file nor a folder.
    """
    files: dict[str, File] = {}
    with tarfile.open(fileobj=io.BytesIO(sdist)) as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isfile() else None
            if content is not None:
                files[member.name] = (content.read(), bool(member.mode & 0o100))
            elif not member.isdir():
                raise ValueError(f"the sdist has {member.name}, which is neither a file nor a folder")
    return packed(files, moment)
