"""A folder of downloads → what each student handed in. The layouts of four platforms are recognised by what only they write.

| layout     | what lies there                                                                                          |
|------------|----------------------------------------------------------------------------------------------------------|
| gradescope | `submission_metadata.yml`, and a folder for each submission; a group's submission names all who share it |
| moodle     | `Ada Lovelace_12345_assignsubmission_file_`, a folder or one file; what was typed: `onlinetext`          |
| canvas     | `lovelaceada_LATE_12345_67890_rings-1.py`: one file, several of which may be one student's               |
| github     | clones named `rings-adalovelace`, as GitHub Classroom's command line makes them                          |
| plain      | a folder, an archive or a file for each student, named by an id or a name                                |
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import yaml

from grader.batch.people import Person
from grader.errors import UsageError
from grader.intake.bag import is_litter
from grader.yaml_file import LOADER

METADATA = "submission_metadata.yml"
MOODLE = re.compile(r"(?P<name>.+?)_(?P<number>\d+)_assignsubmission_(?:file|onlinetext)(?:_(?P<file>.*))?", re.DOTALL)
CANVAS = re.compile(r"(?P<name>.+?)(?:_LATE)?_(?P<number>\d+)_\d+_(?P<file>.+)", re.DOTALL)
ENDINGS = (".tar.gz", ".tgz", ".tar", ".zip", ".py.txt", ".py", ".ipynb")  # of what one student may hand in as a single file


@dataclass(slots=True)
class HandIn:
    """What one student or one group handed in, as the platform tells it."""

    by: tuple[Person, ...]  # ids and names are the platform's
    path: Path
    submitted: str = ""  # ISO 8601; "": the download doesn't say
    files: dict[str, Path] = field(default_factory=dict)  # of a student whose files lie beside others': name as it was handed in -> where


@dataclass(frozen=True, slots=True)
class Found:
    """The hand-ins of a folder, and what in it is nobody's."""

    layout: str
    hand_ins: tuple[HandIn, ...]
    ignored: tuple[str, ...] = ()


def look_into(folder: Path, layout: str = "") -> Found:
    """What was handed in, in `folder`; `layout` names the platform where looking isn't enough. A download that was unpacked into a folder
    of its own is found in there.

    Raises UsageError if the folder can't be read, holds nothing, or is not of that layout.
    """
    entries = _entries(folder)
    if not entries:
        raise UsageError(f"{folder} is empty: name the folder into which you unpacked what the platform gave you.")
    for place in [folder, *(entries if len(entries) == 1 and entries[0].is_dir() else [])]:
        for name, read in READERS.items():
            if layout in ("", name) and (found := read(place, _entries(place))):
                return found
    if layout in ("", "plain"):
        return _plain(folder, entries)
    there = ", ".join(entry.name for entry in entries[:3])
    raise UsageError(f"{folder} holds no {layout} download; there is {there}. Without --layout it is found out what it is.")


def _entries(folder: Path) -> list[Path]:
    try:
        return [folder / name for name in sorted(os.listdir(folder)) if not is_litter(name)]
    except OSError as error:
        raise UsageError(f"{folder} can't be read: {error.strerror}. Name a folder that holds one thing for each student.") from error


# --- Gradescope ------------------------------------------------------------------------------------------------------
def _gradescope(folder: Path, entries: list[Path]) -> Found | None:
    if not (folder / METADATA).is_file():
        return None
    try:
        told = yaml.load((folder / METADATA).read_bytes(), LOADER)
        hand_ins = [_of_gradescope(folder / str(name), facts) for name, facts in told.items()]
    except (yaml.YAMLError, AttributeError, TypeError, KeyError, ValueError) as unfit:
        raise UsageError(f"{folder / METADATA} is not what Gradescope writes: {unfit}; export the submissions again") from unfit
    there = [hand_in for hand_in in hand_ins if hand_in.path.exists()]
    known = {hand_in.path.name for hand_in in there} | {METADATA}
    absent = [f"{hand_in.path.name} (only in {METADATA})" for hand_in in hand_ins if not hand_in.path.exists()]
    return Found("gradescope", tuple(there), (*(entry.name for entry in entries if entry.name not in known), *absent))


def _of_gradescope(path: Path, facts: dict[str, object]) -> HandIn:
    submitters = facts[":submitters"]
    if not isinstance(submitters, list) or not submitters:
        raise ValueError(f"{path.name} has no submitters")
    people = tuple(_submitter({key.strip(":"): str(value or "") for key, value in each.items()}) for each in submitters)
    moment = facts.get(":created_at")
    return HandIn(people, path, moment.isoformat() if isinstance(moment, datetime) else str(moment or ""))


def _submitter(facts: dict[str, str]) -> Person:
    name, email, sid = (facts.get(key, "") for key in ("name", "email", "sid"))
    return Person(sid or email or name, name, email)


# --- Moodle and Canvas -----------------------------------------------------------------------------------------------
def _moodle(folder: Path, entries: list[Path]) -> Found | None:
    return _by_pattern("moodle", MOODLE, entries, lambda told: [f"Participant {told['number']}"])


def _canvas(folder: Path, entries: list[Path]) -> Found | None:
    files = [entry for entry in entries if not entry.is_dir()]
    return _by_pattern("canvas", CANVAS, files, lambda told: []) if len(files) * 2 > len(entries) else None


def _by_pattern(layout: str, pattern: re.Pattern[str], entries: list[Path], aliases: Callable[[re.Match[str]], list[str]]) -> Found | None:
    """Entries whose names the platform made; one student's files come together. None if hardly any is."""
    hand_ins: dict[str, HandIn] = {}
    ignored = []
    for entry in entries:
        told = pattern.fullmatch(entry.name)
        if told is None:
            ignored.append(entry.name)
            continue
        person = Person(told["number"], told["name"], aliases=tuple(aliases(told)))
        hand_in = hand_ins.setdefault(person.id, HandIn((person,), entry))  # of Moodle's two folders `file` is the first
        if not entry.is_dir():
            hand_in.files[told["file"] or entry.name] = entry
    return Found(layout, tuple(hand_ins.values()), tuple(ignored)) if len(hand_ins) and len(ignored) * 2 <= len(entries) else None


# --- GitHub Classroom ------------------------------------------------------------------------------------------------
def _github(folder: Path, entries: list[Path]) -> Found | None:
    clones = [entry for entry in entries if (entry / ".git").exists() or ((entry / "HEAD").is_file() and (entry / "objects").is_dir())]
    slug = _common_slug([clone.name for clone in clones], folder)
    if not clones or not slug:
        return None
    # When it was committed is what its author's clock said, so it is not told as the time of handing in.
    hand_ins = [HandIn((_of_clone(clone.name, slug),), clone) for clone in clones]
    return Found("github", tuple(hand_ins), tuple(entry.name for entry in entries if entry not in clones))


def _of_clone(name: str, slug: str) -> Person:
    """Names of assignments and of users both have dashes; shorter endings are aliases, since all names may begin alike by chance."""
    user = name.removesuffix(".git").removeprefix(slug)
    longer = [f"{part}-{user}" for part in _endings(slug.rstrip("-"))]
    return Person(user, user, aliases=tuple(longer))


def _endings(slug: str) -> Iterator[str]:
    parts = slug.split("-")
    return ("-".join(parts[cut:]) for cut in range(len(parts) - 1, 0, -1))


def _common_slug(names: list[str], folder: Path) -> str:
    """What all clones' names begin with, up to a dash; of a single clone, what its folder `<assignment>-submissions` says."""
    if folder.name.endswith("-submissions") and all(name.startswith(slug := folder.name.removesuffix("submissions")) for name in names):
        return slug
    words = [name.split("-") for name in names]
    common = itertools.takewhile(lambda each: len(set(each)) == 1, zip(*(each[:-1] for each in words), strict=False))
    return "".join(f"{each[0]}-" for each in common) if len(words) > 1 else ""


# --- one thing for each student --------------------------------------------------------------------------------------
def _plain(folder: Path, entries: list[Path]) -> Found:
    hand_ins, ignored = [], []
    for entry in entries:
        ending = next((ending for ending in ENDINGS if entry.name.lower().endswith(ending)), None)
        if ending is None and not entry.is_dir():
            ignored.append(entry.name)
            continue
        stem = entry.name if entry.is_dir() else entry.name[: -len(ending or "")]
        hand_ins.append(HandIn((Person(stem, stem),), entry))
    if not hand_ins:
        raise UsageError(f"{folder} holds nothing that a student could have handed in: a folder, an archive or a file of each is expected.")
    return Found("plain", tuple(hand_ins), tuple(ignored))


READERS: dict[str, Callable[[Path, list[Path]], Found | None]] = {
    "gradescope": _gradescope, "moodle": _moodle, "github": _github, "canvas": _canvas,
}  # fmt: skip
LAYOUTS = (*READERS, "plain")
