"""Archives that somebody made to do harm, or that were damaged on the way."""

from __future__ import annotations

import io
import stat
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.errors import UsageError
from grader.intake.archive import ARCHIVE_LIMIT_BYTES, UNPACKED_LIMIT_BYTES
from grader.intake.bag import FILE_LIMIT_BYTES, NUM_ENTRIES_LIMIT
from grader.records import MiB, Submission

Take, Pack = Callable[..., Submission], Callable[..., Path]
PLAIN = b"def f():\n    return 1\n"
KINDS = ("zip", "tar", "tar.gz")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["../evil.py", "a/../../evil.py", "/etc/evil.py", "C:\\evil.py", "..\\evil.py", "../work-evil/evil.py"])
def test_a_name_that_leads_outside_is_refused_by_name(take: Take, pack: Pack, tmp_path: Path, kind: str, name: str) -> None:
    """Also into a sibling folder whose name begins with the target's; nothing is written anywhere."""
    path = pack(kind, {"rings.py": PLAIN, name: b"x = 1\n"})
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError, match="leads outside of the archive; nothing of it is graded") as refusal:
        take(path)
    assert repr(name) in str(refusal.value) and "Try: zip" in str(refusal.value)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_a_bomb_is_refused_while_it_is_unpacked(take: Take, pack: Pack, kind: str) -> None:
    """A few hundred kilobytes that unpack beyond the limit end in one sentence."""
    path = pack(kind, {"rings.py": PLAIN, "zeros.txt": bytes(UNPACKED_LIMIT_BYTES + 20 * MiB)})
    assert path.stat().st_size < MiB
    with pytest.raises(UsageError, match="unpacks to more than 128 MiB, the limit"):
        take(path)


def test_a_member_that_lies_about_its_size_is_counted_by_what_comes_out(take: Take, tmp_path: Path) -> None:
    """The size in a zip's directory decides nothing: a file over its limit is left out, and one that doesn't fit its word is damage."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("rings.py", b"#" * (3 * MiB))
    honest, size = stream.getvalue(), struct.pack("<L", 3 * MiB)
    (tmp_path / "large.zip").write_bytes(honest)
    submission = take(tmp_path / "large.zip")
    assert submission.files == {} and "larger than 1 MiB" in submission.notes[0]
    (tmp_path / "lies.zip").write_bytes(honest.replace(size, struct.pack("<L", 100)))
    with pytest.raises(UsageError, match="is damaged"):
        take(tmp_path / "lies.zip")


@pytest.mark.parametrize("kind", KINDS)
def test_limits_of_a_file_hold_in_an_archive(take: Take, pack: Pack, kind: str) -> None:
    """One MiB is graded, one byte more is not."""
    assert take(pack(kind, {"rings.py": b"#" * FILE_LIMIT_BYTES})).notes == ()
    submission = take(pack(kind, {"rings.py": b"#" * (FILE_LIMIT_BYTES + 1)}))
    assert submission.files == {} and submission.notes[0].startswith("rings.py is larger than 1 MiB")


@pytest.mark.parametrize("kind", KINDS)
def test_too_many_or_too_deep_is_refused(take: Take, pack: Pack, kind: str) -> None:
    """Counts end at a limit that no honest archive meets."""
    with pytest.raises(UsageError, match=f"more than {NUM_ENTRIES_LIMIT} files"):
        take(pack(kind, {f"{number}": b"" for number in range(NUM_ENTRIES_LIMIT + 1)}))
    with pytest.raises(UsageError, match="12 deep"):
        take(pack(kind, {"a/" * 13 + "rings.py": PLAIN}))


def test_an_archive_over_the_limit_is_not_opened(take: Take, tmp_path: Path) -> None:
    """Its size on the disk is looked at first."""
    with (tmp_path / "work.zip").open("wb") as stream:
        stream.write(b"PK\3\4")
        stream.truncate(ARCHIVE_LIMIT_BYTES + 1)
    with pytest.raises(UsageError, match="64 MiB large; the limit is 64 MiB"):
        take(tmp_path / "work.zip")


def test_links_and_devices_in_archives_are_left_out(take: Take, tmp_path: Path) -> None:
    """A member that is a link, to inside or outside, or a device, is named and not graded."""
    for number, kind in enumerate((tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE)):
        path = tmp_path / f"{number}.tar"
        with tarfile.open(path, "w") as archive:
            member = tarfile.TarInfo("rings.py")
            member.type, member.linkname = kind, "solutions/rings.py"
            archive.addfile(member)
        submission = take(path)
        assert submission.files == {} and submission.notes[0].startswith("rings.py is "), kind
    with zipfile.ZipFile(tmp_path / "link.zip", "w") as archive:
        link = zipfile.ZipInfo("rings.py")
        link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "../solutions/rings.py")
    assert take(tmp_path / "link.zip").notes[0].startswith("rings.py is a link, and links are not followed")


def test_an_encrypted_zip_is_named(take: Take, pack: Pack) -> None:
    """Nobody can grade what needs a password."""
    path = pack("zip", {"rings.py": PLAIN})
    raw = bytearray(path.read_bytes())
    raw[6] |= 1  # the flag of the member, and below that of the directory
    raw[raw.index(b"PK\1\2") + 8] |= 1
    path.write_bytes(raw)
    with pytest.raises(UsageError, match=r"is encrypted \(rings\.py is\); it must open without a password"):
        take(path)


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_half_an_archive_is_called_damaged(take: Take, pack: Pack, kind: str) -> None:
    """An upload that broke off is said to be one, with what to do."""
    path = pack(kind, {"rings.py": bytes(range(256)) * 999, "b.txt": b"b"})
    path.write_bytes(path.read_bytes()[:-700 if kind == "zip" else -20])
    with pytest.raises(UsageError, match=r"is damaged, or was not sent whole.* Try: "):
        take(path)


def test_an_archive_in_an_archive_is_not_opened(take: Take, pack: Pack) -> None:
    """Only one layer is unpacked; the file is said to be missing."""
    inner = pack("zip", {"rings.py": PLAIN}).read_bytes()
    assert take(pack("zip", {"inner.zip": inner}, "outer.zip")).notes == ("rings.py is not in outer.zip.",)


def test_a_changed_archive_of_the_same_name_is_read_anew(take: Take, pack: Pack) -> None:
    """What is remembered between assignments is this very file."""
    first = take(pack("zip", {"rings.py": PLAIN}, "work.zip"))
    second = take(pack("zip", {"rings.py": PLAIN + b"# more\n"}, "work.zip"))
    assert first.hash != second.hash
