"""Rosters as platforms and spreadsheets write them, and who on them is meant by a download's words."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.batch.layouts import Found, HandIn
from grader.batch.people import Person, Roster, read_roster
from grader.batch.roll import call
from grader.errors import UsageError

ROSTERS = {
    "Canvas's gradebook": (
        "Student,ID,SIS User ID,SIS Login ID,Section,Rings (7)\n    Points Possible,,,,,100\n"
        '"Lovelace, Ada",17,0042,ada@example.org,"A, B",\n',
        Person("0042", "Lovelace, Ada", "", "A, B", ("17", "ada@example.org")),
    ),
    "Moodle's worksheet": (
        "Identifier,Full name,ID number,Email address,Status\nParticipant 17,Ada Lovelace,0042,ada@example.org,Submitted\n",
        Person("0042", "Ada Lovelace", "ada@example.org", "", ("Participant 17", "ada@example.org")),
    ),
    "Gradescope's roster": (
        "First Name,Last Name,Email,Role,SID,Section\nAda,Lovelace,ada@example.org,Student,0042,A\n",
        Person("0042", "Ada Lovelace", "ada@example.org", "A", ("ada@example.org",)),
    ),
    "a spreadsheet of Windows": ("\ufeffNachname;Vorname;Matrikelnummer\r\nLovelace;Ada;0042\r\n;;\r\n", Person("0042", "Ada Lovelace")),
    "tabs": ("username\tname\n0042\tAda Lovelace\n", Person("0042", "Ada Lovelace")),
}
CLASS = Roster((
    Person("0042", "Ada Lovelace", "ada@example.org", aliases=("17", "lovelace")),
    Person("0043", "Émilie du Châtelet", "emilie@example.org"),
    Person("0044", "Jan Novák"),
    Person("0045", "Jan Novak"),
    Person("0046", "Li Wei", aliases=("0044x",)),
))  # fmt: skip


@pytest.mark.parametrize("kind", ROSTERS)
def test_a_roster_is_read_as_its_platform_writes_it(kind: str, tmp_path: Path) -> None:
    """Delimiter, byte-order mark, order of names and what is no student are found out; leading zeros stay."""
    text, person = ROSTERS[kind]
    (tmp_path / "roster.csv").write_text(text, encoding="utf-8", newline="")
    assert read_roster(tmp_path / "roster.csv").people == (person,)


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "utf-16"])
def test_a_roster_may_have_any_encoding_of_a_spreadsheet(encoding: str, tmp_path: Path) -> None:
    """Names keep their letters."""
    (tmp_path / "roster.csv").write_text("id,name\n1,Zoë Müller\n", encoding=encoding)
    assert read_roster(tmp_path / "roster.csv").people[0].name == "Zoë Müller"


def test_a_roster_without_ids_is_refused_with_its_own_heading(tmp_path: Path) -> None:
    """The sentence shows the first line and says what is expected."""
    (tmp_path / "roster.csv").write_text("who,what\nAda,\n")
    with pytest.raises(UsageError, match=r"'who,what'; expected is a heading such as id"):
        read_roster(tmp_path / "roster.csv")


def test_who_is_on_it_twice_counts_once(tmp_path: Path) -> None:
    """The same row twice is nothing to speak of; other words for the same id are told with the row, and so is a row without an id."""
    (tmp_path / "roster.csv").write_text("id,name\n1,Ada\n1,Ada\n1,Eve\n,Nobody\n")
    roster = read_roster(tmp_path / "roster.csv")
    assert roster.people == (Person("1", "Ada"),)
    assert [remark.partition(":")[0] for remark in roster.remarks] == ["roster.csv, row 4", "roster.csv, row 5"]


@pytest.mark.parametrize(
    ("meant", "found"),
    [
        (Person("0042"), "0042"),
        (Person("17"), "0042"),
        (Person("ADA@example.org"), "0042"),
        (Person("ada"), "0042"),  # what is before the @
        (Person("900", "lovelaceada"), "0042"),
        (Person("901", "Lovelace, Ada"), "0042"),
        (Person("902", "du_Chatelet_Emilie"), "0043"),
        (Person("903", "Wei Li"), "0046"),
        (Person("0044", "Jan Novák"), "0044"),
        (Person("904", "Jan Novák"), None),
        (Person("905", "Somebody Else"), None),
    ],
)
def test_who_is_meant(meant: Person, found: str | None) -> None:
    """By any id, then by the name in any order and without accents; two who are called the same are never guessed at."""
    person, doubt = CLASS.find(meant)
    assert (person.id if person else None) == found
    assert doubt == {"904": "could be 0044 or 0045 of the roster", "905": "is not on the roster"}.get(meant.id, "")


def test_everybody_is_on_the_roll_once() -> None:
    """Who is absent is missing, who isn't on the roster is graded and named, a group's work is each one's."""
    pair = HandIn((Person("0042"), Person("0043")), Path("in/pair"))
    guest = HandIn((Person("guest"),), Path("in/guest"))
    entries, remarks = call(Found("plain", (pair, guest), ("notes.pdf",)), CLASS)
    assert {entry.person.id: entry.hand_in for entry in entries} == {
        "0042": pair, "0043": pair, "0044": None, "0045": None, "0046": None, "guest": guest
    }  # fmt: skip
    assert [remark.partition(" ")[0] for remark in remarks] == ["notes.pdf", "guest:"]


def test_of_two_hand_ins_the_latest_counts_where_that_is_known() -> None:
    """Gradescope says when; where nobody says, an instructor has to choose, and nothing is graded till then."""
    early, late, other = (HandIn((Person("0042"),), Path(f"in/{name}"), name) for name in ("2026-11-29", "2026-11-30", "2026-11-30"))
    assert call(Found("gradescope", (late, early)), None)[0][0].hand_in is late
    assert "leave one of them" in call(Found("plain", (late, other)), None)[0][0].refusal
