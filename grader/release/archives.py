"""Files → archives that are the same, byte for byte, whenever and wherever they are made: sorted, one date, one owner, fixed modes."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from collections.abc import Collection, Mapping

DATE_S = 946684800  # 2000-01-01, also the oldest sort of date that every zip tool takes
ZIP_DATE = (2000, 1, 1, 0, 0, 0)
PLAIN, EXECUTABLE = 0o644, 0o755


def tar_gz(files: Mapping[str, bytes], folder: str) -> bytes:
    """A tar.gz in which everything lies in `folder`."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path, content in sorted(files.items()):
            member = tarfile.TarInfo(f"{folder}/{path}")
            member.size, member.mtime, member.mode = len(content), DATE_S, PLAIN
            archive.addfile(member, io.BytesIO(content))
    return gzip.compress(stream.getvalue(), compresslevel=9, mtime=0)


def zip_of(files: Mapping[str, bytes], executable: Collection[str] = ()) -> bytes:
    """A zip without a folder around it."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path, content in sorted(files.items()):
            member = zipfile.ZipInfo(path, ZIP_DATE)
            member.create_system, member.compress_type = 3, zipfile.ZIP_DEFLATED
            member.external_attr = (0o100000 | (EXECUTABLE if path in executable else PLAIN)) << 16
            archive.writestr(member, content)
    return stream.getvalue()
