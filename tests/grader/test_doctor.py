"""`grader doctor`: a lack is named with what to do about it, and decides only if grading needs the thing."""

from __future__ import annotations

import io
import os
import sys
from importlib import metadata
from pathlib import Path

import pytest

from grader import cli, doctor, remedies
from grader.doctor import Check
from grader.report.page import Page


def shown(*checks: Check) -> str:
    """What is printed."""
    stream = io.StringIO()
    doctor.show(list(checks), Page(stream, 80))
    return stream.getvalue()


def test_a_lack_comes_with_what_to_do() -> None:
    """The advice is printed for what is missing and for nothing else; the last line says what follows."""
    text = shown(Check("torch", False, "not installed", "make setup"), Check("disk", True, "9 GiB", "free some"))
    assert "make setup" in text and "free some" not in text
    assert "Nothing can be graded here until this is mended: torch." in text
    assert "This machine can grade." in shown(Check("GPU", False, "none", "none needed", is_needed=False))


@pytest.mark.parametrize(("found", "ok"), [("2.10.1", False), ("2.11.0+cpu", True), ("2.13.0", True), ("3.0.0", True)])
def test_versions_are_compared_as_numbers(monkeypatch: pytest.MonkeyPatch, found: str, ok: bool) -> None:
    """2.9 is older than 2.11, and a build's suffix changes nothing."""
    monkeypatch.setattr(metadata, "version", lambda name: found)
    assert doctor._package("torch", (2, 11), None).ok is ok


@pytest.mark.parametrize(("found", "ok"), [("3.5.9", False), ("3.6.0", True), ("3.8.2", True), ("3.9.0", False)])
def test_a_version_may_be_too_new(monkeypatch: pytest.MonkeyPatch, found: str, ok: bool) -> None:
    """Block pointers are gone in Triton 3.9."""
    monkeypatch.setattr(metadata, "version", lambda name: found)
    assert doctor._package("triton", (3, 6), (3, 9)).ok is ok


@pytest.mark.parametrize(("is_needed", "code"), [(True, 4), (False, 0)])
def test_only_what_grading_needs_decides_the_exit_code(monkeypatch: pytest.MonkeyPatch, is_needed: bool, code: int) -> None:
    """A missing GPU is no fault of the machine; missing torch is."""
    monkeypatch.setattr(doctor, "examine", lambda: [Check("it", False, "not there", "get it", is_needed)])
    monkeypatch.setattr("sys.argv", ["grader", "doctor"])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == code


@pytest.mark.parametrize(
    ("refused", "said", "advice"),
    [
        ("PermissionError: [Errno 1] Operation not permitted: 'unshare'", {"sys/kernel/apparmor_restrict_unprivileged_userns": "1"},
         "profile grader {python} flags=(unconfined) { userns, }"),
        ("OSError: [Errno 28] No space left on device: 'unshare'", {"sys/user/max_user_namespaces": "0"}, "user.max_user_namespaces=10000"),
        ("PermissionError: [Errno 1] Operation not permitted: 'unshare'", {"sys/kernel/unprivileged_userns_clone": "0"},
         "kernel.unprivileged_userns_clone=1"),
        ("PermissionError: [Errno 1] Operation not permitted: 'unshare'", {"self/status": "Name: x\nSeccomp:\t2\n"}, "A filter of system"),
        ("PermissionError: [Errno 1] Operation not permitted: '/tmp/grader-1/run/canary/proc'", {}, "Parts of this /proc are hidden"),
        ("PermissionError: [Errno 1] Operation not permitted: '/proc/self/uid_map'", {}, "CAP_SETFCAP"),
        ("something was not denied", {"sys/user/max_user_namespaces": "96365", "self/status": "Seccomp:\t0\n"}, remedies.IN_GENERAL["A"]),
    ],
)  # fmt: skip
def test_what_keeps_namespaces_away_is_named_with_what_would_bring_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, refused: str, said: dict[str, str], advice: str
) -> None:
    """By the kernel's own settings and by what the canary met: one piece of advice, not all there is."""
    for name, text in said.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    monkeypatch.setattr(remedies, "PROC", tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    told = remedies.remedy("A", refused)
    assert advice.replace("{python}", os.path.realpath(sys.executable)) in told
    assert (told == remedies.IN_GENERAL["A"]) == (advice == remedies.IN_GENERAL["A"])
    assert remedies.remedy("B", refused) == remedies.IN_GENERAL["B"]


def test_each_level_above_the_one_reached_has_its_reason_and_its_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """At C, A and B are named; at B, A; at A, nothing: the canary's own words first, then what would bring it."""
    monkeypatch.setattr(remedies, "PROC", tmp_path)
    told = [{"refused": {"A": "PermissionError: unshare"}}]
    at_c = shown(*doctor.levels("isolation C: Landlock 7", told))
    assert "level A not here: PermissionError: unshare" in " ".join(at_c.split())
    assert "max_user_namespaces" in at_c and "CAP_SETUID" in at_c and "may not change users" in at_c
    assert [check.name for check in doctor.levels("isolation B: all", told)] == ["isolation", "level A"]
    assert [(check.name, check.ok) for check in doctor.levels("isolation A: all", told)] == [("isolation", True)]
    assert [check.ok for check in doctor.levels("isolation D: formative", [])] == [False, False, False]
