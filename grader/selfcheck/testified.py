"""The laws whose points rest on what the process that ran a submission says of itself, as a page of the design.

python -m grader.selfcheck.testified     writes grader/design/testified.md; a test fails when it is not what the assignments say
"""

from __future__ import annotations

from pathlib import Path

from grader.course import Course, find_root, load

PAGE = Path("grader/design/testified.md")
HEAD = """# What rests on testimony

Written by `python -m grader.selfcheck.testified` from the assignments. A law here can be earned by a submission that makes up what it says;
one of the dishonest submissions does. On the judge's wire nothing else joins the ranks: a folder, a socket, shared memory
and other processes are refused (level C and above). Over gloo the recorder's trace is testimony; at level A it must agree with the kernel's
counter of the ranks' own loopback, or the run is `forged`. Cases over gloo repeat what other cases of their laws ask on the wire.
"""


def page_of(course: Course) -> str:
    """The page: a table by assignment, and the laws one by one."""
    rows, laws, sums = [], [], [0, 0]
    for assignment in course.assignments:
        testified = [law for law in assignment.laws() if law.evidence == "testified"]
        points = sum(law.points for law in testified)
        sums = [sums[0] + points, sums[1] + assignment.points]
        rows.append(f"| {assignment.name} | {len(testified)} | {points} | {assignment.points} |")
        laws += [f"| `{law.id}` | {law.points} | {law.claim.replace('|', '/')} |" for law in testified]
    rows.append(f"| together | {len(laws)} | {sums[0]} | {sums[1]} |")
    by_assignment = ["| assignment | laws | points on testimony | of |", "|---|---|---|---|", *rows]
    return "\n".join([HEAD, *by_assignment, "", "| law | points | claim |", "|---|---|---|", *laws, ""])


if __name__ == "__main__":
    course = load(find_root())
    (course.root / PAGE).write_text(page_of(course), encoding="utf-8")
