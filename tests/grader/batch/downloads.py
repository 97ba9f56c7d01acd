"""A class and what it handed in, written as each platform would give it to an instructor."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

Files = Mapping[str, bytes]  # what a student handed in: one archive, one file or several


@dataclass(frozen=True, slots=True)
class Student:
    """As the roster has them; a platform knows only some of this."""

    id: str
    name: str
    login: str
    number: int  # a platform's own

    @property
    def email(self) -> str:
        return f"{self.login}@example.org"


def zipped(files: Files, folder: str = "") -> bytes:
    """A zip of `files`, as macOS makes one when there is a folder to wrap them in."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(f"{folder}/{name}" if folder else name), content)
            if folder:
                archive.writestr(zipfile.ZipInfo(f"__MACOSX/{folder}/._{name}"), b"\0\5\26\7")
    return stream.getvalue()


def roster_csv(students: Sequence[Student]) -> bytes:
    """As a German spreadsheet saves it: semicolons, a byte-order mark, names with commas in them."""
    lines = [f'{each.id};"{each.name}";{each.email};{each.login};{each.number};Participant {each.number}' for each in students]
    return ("\ufeff" + "\r\n".join(["SID;Name;Email;GitHub username;ID;Identifier", *lines]) + "\r\n").encode()


def _fill(folder: Path, files: Files) -> None:
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def gradescope(folder: Path, handed: Mapping[Student, Files]) -> None:
    """An export of submissions: folders by number, and a table of who they are."""
    told = {}
    for student, files in handed.items():
        _fill(folder / f"submission_{student.number}", files)
        told[f"submission_{student.number}"] = {
            ":submitters": [{":name": student.name, ":sid": student.id, ":email": student.email}],
            ":created_at": "2026-11-30 09:10:11.123456789 Z",
            ":score": 0.0,
        }
    (folder / "submission_metadata.yml").write_text(yaml.safe_dump(told, allow_unicode=True), encoding="utf-8")


def moodle(folder: Path, handed: Mapping[Student, Files]) -> None:
    """Submissions in folders; some students have typed something into the box, too."""
    for student, files in handed.items():
        _fill(folder / f"{student.name}_{student.number}_assignsubmission_file_", files)
        if student.number % 3 == 0:
            _fill(folder / f"{student.name}_{student.number}_assignsubmission_onlinetext_", {"onlinetext.html": b"<p>Here it is."})


def canvas(folder: Path, handed: Mapping[Student, Files]) -> None:
    """All files of all students side by side; every fourth was late."""
    folder.mkdir(parents=True)
    for student, files in handed.items():
        name = "".join(filter(str.isalnum, student.name.casefold()))
        late = "_LATE" if student.number % 4 == 0 else ""
        for place, (file, content) in enumerate(files.items()):
            (folder / f"{name}{late}_{student.number}_{7 * student.number + place}_{file}").write_bytes(content)


def github(folder: Path, handed: Mapping[Student, Files]) -> None:
    """Clones beside each other."""
    for student, files in handed.items():
        _fill(folder / f"sums-week-1-{student.login}", files)
        _fill(folder / f"sums-week-1-{student.login}" / ".git", {"HEAD": b"ref: refs/heads/main\n"})


def plain(folder: Path, handed: Mapping[Student, Files]) -> None:
    """A folder for each student."""
    for student, files in handed.items():
        _fill(folder / student.id, files)


LAYOUTS: dict[str, Callable[[Path, Mapping[Student, Files]], None]] = {
    "gradescope": gradescope, "moodle": moodle, "canvas": canvas, "github": github, "plain": plain,
}  # fmt: skip
