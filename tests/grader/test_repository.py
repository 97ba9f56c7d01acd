"""What the repository says of itself is true: README, Makefile, pins, and nothing of the machine that it was written on."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIMIT_LINES = 300
# The rule makes these worse, and why.
LONGER = {
    "grader/install.py": "runs before anything is there to import, so that it is one file",
    "grader/records.py": "every record that crosses a door, on one page that both sides read",
    "solutions/flash_attention.py": "the kernels of both directions, which are read side by side",
    "solutions/tensor_parallel.py": "the functions, the layers made of them and the model made of those, which a student writes in turn",
    "tests/benchmarks/flash_attention_hopper.py": "one kernel: who loads, who consumes, and what both hold",
    "tests/benchmarks/flash_attention_hopper_backward.py": "likewise",
    "tests/public/test_*.py": "an assignment's public cases are one file, so that a student finds them",
}

# Machine paths, and places that packages come from: a clone must work with whatever its reader's pip is set to.
OF_ONE_MACHINE = re.compile(
    r"(?<![\w.~$}/-])/(?:opt|root|work)/\w|\b(?:pypi|pythonhosted|npmjs|anaconda)\.(?:org|com)\b|://\S+/simple\b"
)
CPU_INDEX = "https://download.pytorch.org/whl/cpu"


def tracked(pattern: str = "*") -> list[Path]:
    """Files that belong to the repository; what is still being written elsewhere in the folder isn't its business yet."""
    names = subprocess.run(["git", "ls-files", "-z", "--", pattern], cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def text_of(name: str) -> str:
    """A file of the repository."""
    return (ROOT / name).read_text(encoding="utf-8")


def make(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run make as a person would, also when these tests were themselves started by make with choices of its own."""
    surroundings = {key: value for key, value in os.environ.items() if key not in {"MAKEFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "MFLAGS"}}
    return subprocess.run(["make", *arguments], cwd=ROOT, capture_output=True, check=False, env=surroundings)


def section(name: str, heading: str) -> str:
    """What stands under a heading of a Markdown file, up to the next one."""
    return text_of(name).partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def makefile_targets() -> set[str]:
    """Every target that has a rule."""
    return set(re.findall(r"^([a-z]+):", text_of("Makefile"), re.MULTILINE))


# --- README ----------------------------------------------------------------------------------------------------------
def rooms() -> dict[str, str]:
    """README's tree: folder → its few words."""
    parent, found = "", {}
    for indent, name, words in re.findall(r"^( *)([\w.]+/) {2,}(\S.*)$", section("README.md", "The rooms"), re.MULTILINE):
        parent = parent if indent else name
        found[parent + name if indent else name] = words
    return found


def test_every_room_of_the_readme_exists() -> None:
    """A newcomer follows the tree, so each line leads somewhere."""
    assert len(rooms()) > 10
    assert [room for room in rooms() if not (ROOT / room).is_dir()] == []


def test_the_readme_names_every_room() -> None:
    """Each folder at the top has its line in the tree; .github belongs to the place that hosts the repository."""
    top = {f"{path.relative_to(ROOT).parts[0]}/" for path in tracked() if len(path.relative_to(ROOT).parts) > 1}
    assert top - {".github/"} == {room for room in rooms() if room.count("/") == 1}


def test_the_readme_calls_ready_what_is_there() -> None:
    """All fourteen assignments are listed, and those that are marked ready are those that a student can be graded on."""
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|.*\| (\S.*?) \|$", section("README.md", "The fourteen assignments"), re.MULTILINE)
    assert [int(number) for number, _, _ in rows] == list(range(1, 15))
    ready = {name for _, name, state in rows if state == "**ready**"}
    assert ready == {path.stem.removeprefix("test_") for path in tracked("tests/public/test_*.py")}


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "datasets/README.md"])
def test_every_make_command_in_the_text_exists(name: str) -> None:
    """What is printed in a text can be typed."""
    commands = set(re.findall(r"(?:`|^)make ([a-z]+)", text_of(name), re.MULTILINE))
    assert commands
    assert commands <= makefile_targets()


def test_the_readmes_losses_are_those_of_the_log() -> None:
    """A figure in a text is a copy; the log beside the plot is what was measured."""
    log = [json.loads(line) for line in text_of("tests/benchmarks/results/tiny_shakespeare_1m_cpu.jsonl").splitlines()]
    steps, seen = [entry for entry in log if entry["event"] == "step"], [entry for entry in log if entry["event"] == "evaluation"]
    words = (
        f"a loss of {steps[0]['loss']:.2f} to {steps[-1]['loss']:.2f} nats per token in {steps[-1]['process_cpu_s']:.0f} s of CPU time, "
        f"{seen[-1]['loss']:.2f} on text"
    )
    assert words in " ".join(text_of("README.md").split())


def test_files_that_the_readme_sends_to_are_there() -> None:
    """Where to read on."""
    files = re.findall(r"^- `(\S+)`", section("README.md", "Where to read on"), re.MULTILINE)
    assert len(files) >= 4
    assert [file for file in files if not (ROOT / file).is_file()] == []


# --- Makefile --------------------------------------------------------------------------------------------------------
def test_help_lists_every_target() -> None:
    """The table is drawn from the comments beside the rules; a rule without one would be hidden."""
    printed = make("help").stdout.decode()
    listed = set(re.findall(r"^  ([a-z]+) +\w", printed, re.MULTILINE))
    assert listed == makefile_targets()
    phony = re.search(r"^\.PHONY: (.*)$", text_of("Makefile"), re.MULTILINE)
    assert phony is not None
    assert set(phony.group(1).split()) - {"FORCE"} == listed


def test_choices_reach_the_command_line() -> None:
    """A, SUBMISSION, PROFILE, OUT and K become options, with spaces kept together."""
    choices = ["A=collectives 7", "SUBMISSION=my work", "PROFILE=gpu", "OUT=a b", "K=ring and not mean"]
    printed = make("-n", "grade", *choices).stdout.decode()
    options = '--assignment "collectives" --assignment "7" --submission "my work" --profile "gpu" --out "a b" -k "ring and not mean"'
    assert options in printed


# --- packaging -------------------------------------------------------------------------------------------------------
def test_the_command_that_is_installed_exists() -> None:
    """`grader` on the command line is a function that is there."""
    module, _, function = tomllib.loads(text_of("pyproject.toml"))["project"]["scripts"]["grader"].partition(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_every_direct_dependency_is_pinned_with_its_reason() -> None:
    """pyproject.toml says what works; for each name there is a pin, and each pin's line says why the package is there."""
    project = tomllib.loads(text_of("pyproject.toml"))
    lines = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    for extra in project["project"]["optional-dependencies"].values():
        lines += extra
    pinned: set[str] = set()
    for path in tracked("grader/constraints/*.txt"):
        for pin, reason in re.findall(r"^([\w-]+)==\S+(.*)$", path.read_text(encoding="utf-8"), re.MULTILINE):
            assert re.search(r"# \S", reason), f"{path.name} doesn't say why {pin} is needed"
            pinned.add(pin.lower())
    assert pinned == {re.split(r"[^\w-]", line)[0].lower() for line in lines}


def test_the_licence_is_mit_in_every_place() -> None:
    """The file, the packaging and README agree."""
    assert text_of("LICENSE").startswith("MIT License\n")
    assert tomllib.loads(text_of("pyproject.toml"))["project"]["license"] == "MIT"
    assert "MIT licence" in text_of("README.md")


# --- every file ------------------------------------------------------------------------------------------------------
def test_handouts_say_where_solutions_are() -> None:
    """A student has no solutions/: a line of a handout that names the folder says whose it is."""
    for handout in tracked("assignments/*/handout.md"):
        for line in re.findall(r".*(?:=solutions\b|\bsolutions/).*", handout.read_text(encoding="utf-8")):
            assert "in the course's own repository" in line, f"{handout.parent.name}: {line}"


def test_no_file_speaks_of_one_machine() -> None:
    """No path of one machine and no package registry, but PyTorch's public CPU index in the set-up."""
    found = []
    for path in tracked():
        if path == Path(__file__) or path.suffix in {".png", ".bin"}:
            continue
        text = path.read_text(encoding="utf-8")
        found += [f"{path.relative_to(ROOT)}: {match.group()}" for match in OF_ONE_MACHINE.finditer(text)]
    assert found == []


def test_torchs_index_stands_in_the_set_up_only() -> None:
    """One place to change it."""
    holders = [path.relative_to(ROOT).as_posix() for path in tracked("*.py") if CPU_INDEX in path.read_text(encoding="utf-8")]
    assert sorted(holders) == ["grader/install.py", Path(__file__).relative_to(ROOT).as_posix()]


def test_no_source_file_is_longer_than_three_hundred_lines() -> None:
    """Beyond that a file has two duties. Outside the grader comments and blank lines are free, for there they teach."""
    longer, excepted = {}, set()
    for path in tracked("*.py"):
        name, lines = path.relative_to(ROOT), path.read_text(encoding="utf-8").splitlines()
        if name.parts[0] != "grader":
            lines = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
        if len(lines) > LIMIT_LINES:
            patterns = [pattern for pattern in LONGER if name.match(pattern)]
            excepted.update(patterns)
            if not patterns:
                longer[name.as_posix()] = len(lines)
    assert longer == {}
    assert set(LONGER) == excepted, "what has become short again needs no exception"


def test_nothing_that_a_merge_or_an_editor_leaves_is_kept() -> None:
    """Such a file is an old copy of the one beside it."""
    left = {".orig", ".rej", ".bak", ".swp", ".tmp"}
    assert [path.relative_to(ROOT).as_posix() for path in tracked() if path.suffix in left or path.name.endswith("~")] == []


def test_changes_say_whom_they_concern() -> None:
    """Every line of CHANGELOG.md begins with one of four prefixes."""
    lines = re.findall(r"^- (.*)$", text_of("CHANGELOG.md"), re.MULTILINE)
    assert lines
    assert [line for line in lines if not re.match(r"(handout|starter|grader|tests): ", line)] == []
