"""Who is in the class: the roster as a CSV file that some platform or spreadsheet wrote, and who on it is meant by a download's words."""

from __future__ import annotations

import csv
import io
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from grader.errors import UsageError

# What platforms and spreadsheets call a column, letters only. Of the ids the first that is there is the student's; the others are aliases.
IDS = ("studentid", "sid", "idnumber", "studentnumber", "matriculationnumber", "matrikelnummer", "orgdefinedid", "sisuserid", "id",
       "userid", "username", "loginid", "sisloginid", "login", "githubusername", "github", "githubid", "identifier", "email",
       "emailaddress", "mail")  # fmt: skip
NAMES = ("name", "fullname", "student", "studentname", "displayname")
FIRST_NAMES, LAST_NAMES = ("firstname", "givenname", "givennames", "vorname"), ("lastname", "surname", "familyname", "nachname")
EMAILS = ("email", "emailaddress", "mail")
SECTIONS = ("section", "sections", "sectionname", "group", "class")
DELIMITERS = ",;\t"


@dataclass(frozen=True, slots=True)
class Person:
    """A student as the roster, or without one a platform, knows them."""

    id: str
    name: str = ""
    email: str = ""
    section: str = ""
    aliases: tuple[str, ...] = ()  # other ids: a login, a number, an address


@dataclass(slots=True)
class Roster:
    """The people of a class, found by any of their ids or by their name."""

    people: tuple[Person, ...]
    remarks: tuple[str, ...] = ()  # what whoever keeps the roster should know
    _by_id: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _by_name: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def __post_init__(self) -> None:
        for person in self.people:
            for word in (person.id, *person.aliases, person.email, person.email.partition("@")[0]):
                self._by_id[_as_id(word)].add(person.id)
            for spelling in _spellings(person.name):
                self._by_name[spelling].add(person.id)
        for person in self.people:  # an id is its owner's, whoever has the same word as an alias
            self._by_id[_as_id(person.id)] = {person.id}

    def find(self, meant: Person) -> tuple[Person | None, str]:
        """The person of the roster whom a platform's words mean, and if there is none or it isn't certain, why not."""
        ways = [(self._by_id, _as_id(word)) for word in (meant.id, *meant.aliases, meant.email) if word]
        ways += [(self._by_name, spelling) for spelling in _spellings(meant.name or meant.id)]
        doubt = "is not on the roster"
        for index, word in ways:
            found = index.get(word, set())
            if len(found) == 1:
                return next(person for person in self.people if person.id in found), ""
            if found:
                doubt = f"could be {' or '.join(sorted(found))} of the roster"
        return None, doubt


def read_roster(path: Path) -> Roster:
    """The people in a CSV file with a line of headings; comma, semicolon or tab, with or without a byte-order mark.

    Raises UsageError if it can't be read or has no column that identifies a student. Somebody who is on it twice counts once.
    """
    try:
        text = _decoded(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path} can't be read as a roster: {error.strerror}") from error
    head = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = max(DELIMITERS, key=head.count)
    rows = [row for row in csv.reader(io.StringIO(text), delimiter=delimiter) if any(cell.strip() for cell in row)]
    columns = {_letters(heading): number for number, heading in reversed(list(enumerate(rows[0] if rows else [])))}
    if not any(name in columns for name in IDS):
        raise UsageError(f"{path} has no column that identifies students. Its first line has {head.strip()[:200]!r}; expected is a heading "
                         "such as id, SID, Student ID, username or email.")  # fmt: skip
    people: dict[str, Person] = {}
    remarks: list[str] = []
    for number, row in enumerate(rows[1:], 2):
        person = _person(row, columns)
        if person is None:
            remarks.append(f"{path.name}, row {number}: no id in it, so it is nobody's.")
        elif people.setdefault(person.id, person) != person:
            remarks.append(f"{path.name}, row {number}: {person.id} is there already with other words; the first row counts.")
    return Roster(tuple(people.values()), tuple(remarks))


def _person(row: Sequence[str], columns: dict[str, int]) -> Person | None:
    def of(names: Iterable[str]) -> Iterator[str]:
        cells = (row[columns[name]].strip() for name in names if name in columns and columns[name] < len(row))
        return (unicodedata.normalize("NFC", cell) for cell in cells if cell)

    ids = list(dict.fromkeys(of(IDS)))
    if not ids:
        return None
    name = next(of(NAMES), "") or " ".join([*list(of(FIRST_NAMES))[:1], *list(of(LAST_NAMES))[:1]])
    return Person(ids[0], name, next(of(EMAILS), ""), next(of(SECTIONS), ""), tuple(ids[1:]))


def _decoded(raw: bytes) -> str:
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return raw.decode("utf-16", "replace")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("cp1252", "replace")  # what a spreadsheet of Windows saves as CSV


def _letters(text: str) -> str:
    """Letters and digits only, without accents and case: ways to write a name or a heading that mean the same."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    return "".join(letter for letter in plain if letter.isalnum())


def _as_id(text: str) -> str:
    return unicodedata.normalize("NFKC", text).strip().casefold()


def _spellings(name: str) -> tuple[str, ...]:
    """A name as downloads write it: `Ada Lovelace`, `Lovelace, Ada`, `lovelaceada`."""
    words = [_letters(word) for word in name.replace(",", " ").replace("_", " ").split()]
    given = [_letters(name), *("".join([*words[cut:], *words[:cut]]) for cut in range(1, len(words)))]
    return tuple(dict.fromkeys(spelling for spelling in given if spelling))
