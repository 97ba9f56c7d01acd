"""A student's course → a newer release of it, without losing a line that the student wrote."""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grader.errors import MachineError, UsageError

STAMP = "release.json"
TRY = "Try: make upgrade FROM=path/to/the/new/archive.tar.gz"


@dataclass(slots=True)
class Upgrade:
    """What was done, path by path."""

    version: str
    aside: str  # the folder for what could not be put in its place; made only if there is something
    replaced: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    yours_stands: list[str] = field(default_factory=list)  # the new starter lies aside
    yours_aside: list[str] = field(default_factory=list)  # ours stands, the student's text lies aside
    yours_left: list[str] = field(default_factory=list)  # the new release has no such file

    def sentences(self) -> Iterator[str]:
        """What a student must know, shortest first."""
        yield f"Version {self.version}: {len(self.replaced)} files are new, {len(self.removed)} are gone."
        yield from (f"{path} is yours and stands; its new starter is {self.aside}/{path}." for path in self.yours_stands)
        yield from (f"{path} was edited by you: ours stands there now, yours is {self.aside}/yours/{path}." for path in self.yours_aside)
        yield from (f"{path} is in no release any more; yours stands." for path in self.yours_left)
        yield "CHANGELOG.md says what changed; the next make grade brings .venv up to date."


def upgrade(root: Path, source: Path) -> Upgrade | None:
    """Bring the course at `root` to the release at `source` (an archive, or its unpacked folder); None if it is that release already.

    Killed in the middle, it can be run again: release.json is written last. UsageError if either is no release, or the new one is damaged.
    """
    if source == Path():  # make hands on what it was not given
        raise UsageError(f"Which release? {TRY}")
    old = _stamp((root / STAMP).read_bytes() if (root / STAMP).is_file() else b"", f"{root}, which you want to upgrade,")
    read = _reader(source)
    stamp = read(STAMP)
    new = _stamp(stamp or b"", str(source))
    if new["name"] != old["name"]:
        raise UsageError(f"{source} is a release of {new['name']}, and this is {old['name']}. {TRY}")
    if new["build"] == old["build"]:
        return None
    files = _verified(new["files"], read, source)
    done = Upgrade(str(new["version"]), _free_folder(root, str(new["version"])))
    for path, content in files.items():
        _bring(root, path, content, old["files"].get(path), path in {*new["yours"], *old["yours"]}, done)
    for path in sorted(old["files"].keys() - files.keys()):
        _take_away(root, path, old["files"][path], done)
    _write(root / STAMP, stamp or b"")
    return done


# --- one file --------------------------------------------------------------------------------------------------------
def _bring(root: Path, path: str, content: bytes, old_sum: str | None, is_theirs: bool, done: Upgrade) -> None:
    place = root / path
    present = _present(place)
    if present is not None and _sum(present) == _sum(content):
        return
    if present is None or _sum(present) == old_sum:
        done.replaced.append(path)
    elif is_theirs:
        if _sum(content) != old_sum:  # else only the student's side has changed
            _write(root / done.aside / path, content)
            done.yours_stands.append(path)
        return
    else:
        _write(root / done.aside / "yours" / path, present)
        done.yours_aside.append(path)
    _write(place, content)


def _take_away(root: Path, path: str, old_sum: str, done: Upgrade) -> None:
    present = _present(root / path)
    if present is None:
        return
    if _sum(present) != old_sum:
        done.yours_left.append(path)
        return
    (root / path).unlink()
    done.removed.append(path)
    for folder in (root / path).parents:
        if folder == root or any(folder.iterdir()):
            break
        folder.rmdir()


def _present(place: Path) -> bytes | None:
    """What lies at `place`; of a folder that took its place, UsageError."""
    if place.is_dir():
        raise UsageError(f"{place} is a folder, and a file of the course belongs there: rename the folder, then upgrade again.")
    return place.read_bytes() if place.is_file() else None


def _sum(content: bytes) -> str:
    return hashlib.sha256(content.replace(b"\r\n", b"\n")).hexdigest()  # git may have changed the line ends


def _write(place: Path, content: bytes) -> None:
    """Whole or not at all."""
    draft = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(content)
        draft.replace(place)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise MachineError(f"{place} can't be written: {error.strerror}. Upgrade again when it can.") from error


def _free_folder(root: Path, version: str) -> str:
    names = (f"upgrade-{version}{'' if number == 1 else f'-{number}'}" for number in range(1, 10_000))
    return next(name for name in names if not (root / name).exists())


# --- the new release -------------------------------------------------------------------------------------------------
def _stamp(raw: bytes, where: str) -> dict[str, Any]:
    try:
        tree = json.loads(raw)
        wanted = {"name": str, "version": str, "build": str, "yours": list, "files": dict}
        if all(isinstance(tree[name], kind) for name, kind in wanted.items()):
            return dict(tree)
    except (ValueError, KeyError, TypeError):
        pass
    raise UsageError(f"{where} has no {STAMP} of a release. {TRY}")


def _reader(source: Path) -> Callable[[str], bytes | None]:
    """Reads a file of the release by its path; None if it isn't there."""
    if source.is_dir():
        return lambda path: (source / path).read_bytes() if (source / path).is_file() else None
    try:
        members = _zip_members(source) if zipfile.is_zipfile(source) else _tar_members(source)
    except FileNotFoundError:
        raise UsageError(f"There is no {source}. {TRY}") from None
    except (OSError, EOFError, tarfile.TarError, zipfile.BadZipFile) as error:
        reason = str(error).partition("\n")[0].rstrip(":")  # tarfile adds a line for each kind of archive that it tried
        raise UsageError(f"{source} is no archive, or was not downloaded whole ({reason}). {TRY}") from None
    tops = {name.partition("/")[0] for name in members}
    folder = f"{tops.pop()}/" if len(tops) == 1 else ""
    return lambda path: members.get(folder + path)


def _zip_members(source: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(source) as archive:
        return {member.filename: archive.read(member) for member in archive.infolist() if not member.is_dir()}


def _tar_members(source: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    with tarfile.open(source) as archive:
        for member in archive:
            stream = archive.extractfile(member) if member.isreg() else None
            if stream:
                found[member.name] = stream.read()
    return found


def _verified(sums: Mapping[str, str], read: Callable[[str], bytes | None], source: Path) -> dict[str, bytes]:
    """All files of the new release, as its stamp says they are."""
    files = {}
    for path, expected in sums.items():
        if path.startswith("/") or ".." in path.split("/") or "\\" in path:
            raise UsageError(f"{source} names {path!r}, which leads outside of the course; nothing was changed. {TRY}")
        content = read(path)
        if content is None or expected not in (hashlib.sha256(content).hexdigest(), _sum(content)):
            raise UsageError(f"{source} is damaged: {path} is {'missing' if content is None else 'another'}; nothing was changed. {TRY}")
        files[path] = content
    return files
