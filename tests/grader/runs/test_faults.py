"""Whatever a submission does, the run ends soon, with a sentence that names rank, call and line, and nothing of it is left."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest

from grader.errors import SubmissionError
from grader.intake import intake
from grader.observe.live import Runs
from grader.observe.observer import Observer
from grader.records import Assignment, Limits

SHORT = Limits(cpu_s=0.5, wall_s=1.0, idle_s=1.0)

FAULTS = {
    # name: (source, world size, kind, words of the sentence or of its lines)
    "every_rank_sends_first": (
        """
        def run(inputs):
            r, n = dist.get_rank(), dist.get_world_size()
            x, y = torch.ones(3), torch.empty(3)
            dist.send(x, (r + 1) % n)
            dist.recv(y, (r - 1) % n)
        """,
        3, "deadlock", ("rank 0", "send", "float32", "tiny.py:5"),
    ),
    "one_rank_raises": (
        """
        def run(inputs):
            if dist.get_rank() == 1:
                raise KeyError("gradient")
            dist.barrier()
        """,
        2, "raised", ("rank 1", "KeyError", "gradient", "tiny.py:4"),
    ),
    "shapes_differ": (
        """
        def run(inputs):
            dist.all_reduce(torch.ones(4 + dist.get_rank()))
        """,
        2, "mismatch", ("shape", "rank 0", "rank 1", "[4]", "[5]", "tiny.py:3"),
    ),
    "one_rank_never_arrives": (
        """
        def run(inputs):
            if dist.get_rank() == 0:
                dist.all_reduce(torch.ones(2))
        """,
        2, "deadlock", ("rank 0", "all_reduce", "rank 1", "tiny.py:4"),
    ),
    "a_loop_swallows_every_exception": (
        """
        def run(inputs):
            while True:
                try:
                    sum(range(1000))
                except BaseException:
                    pass
        """,
        1, "cpu_limit", ("rank 0", "CPU", "tiny.py:"),
    ),
    "a_rank_sleeps": (
        """
        def run(inputs):
            time.sleep(3600)
        """,
        1, "silent", ("rank 0", "tiny.py:3"),
    ),
    "a_rank_leaves_with_status_zero": (
        """
        def run(inputs):
            if dist.get_rank() == 1:
                os._exit(0)
            dist.barrier()
        """,
        2, "exited", ("rank 1", "status 0"),
    ),
    "a_rank_calls_sys_exit": (
        """
        def run(inputs):
            sys.exit(0)
        """,
        2, "raised", ("SystemExit", "tiny.py:3"),
    ),
    "a_rank_crashes": (
        """
        def run(inputs):
            if dist.get_rank() == 1:
                os.kill(os.getpid(), 11)
            dist.barrier()
        """,
        2, "crashed", ("rank 1", "SIGSEGV"),
    ),
    "a_rank_kills_its_parent": (
        """
        def run(inputs):
            os.kill(os.getppid(), 9)
            time.sleep(3600)
        """,
        1, "killed_watcher", ("watch",),
    ),
    "an_answer_of_another_shape": (
        """
        def run(inputs):
            return {"y": torch.ones(3)}
        """,
        1, "malformed", ("rank 0", "float32[3]", "float32[2]"),
    ),
    "an_allocation_beyond_the_limit": (
        """
        def run(inputs):
            torch.ones(64, 2**20)
        """,
        1, "memory", ("rank 0", "tiny.py:3"),
    ),
}  # fmt: skip


@pytest.mark.usefixtures("no_walls")  # or no rank could kill its parent
@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_is_a_sentence_with_rank_call_and_line(submit: Callable, name: str) -> None:
    """Each way of going wrong ends in its own kind of fault, and the words that a student needs are in its sentence."""
    source, world_size, kind, words = FAULTS[name]
    limits = Limits(cpu_s=0.5, wall_s=1.0, extra_bytes=64 * 2**20) if kind == "memory" else SHORT
    returns = {"y": ("float32", (2,))} if kind == "malformed" else {}
    seen = submit(source)("run", world_size=world_size, returns=returns, limits=limits)
    assert seen.fault is not None and seen.fault.kind == kind, seen.fault
    said = seen.explain()
    assert not [word for word in words if word not in said], said
    with pytest.raises(SubmissionError):
        seen.rank(0)


def test_endless_output_is_cut_and_costs_nothing_else(submit: Callable) -> None:
    """Gigabytes of print are drained while they come; head and tail are kept and the cut is marked."""
    seen = submit("""
        def run(inputs):
            print("first words")
            while True:
                print("x" * 10_000)
    """)("run", limits=SHORT)
    log = seen._outcome.ranks[0].log
    assert seen.fault is not None and seen.fault.kind == "cpu_limit"
    assert log.startswith("first words") and len(log) < 3 * SHORT.log_bytes


def test_output_that_is_not_text_is_kept_readable(submit: Callable) -> None:
    """Bytes that are no UTF-8 don't break the report."""
    seen = submit("""
        def run(inputs):
            os.write(1, b"caf\\xe9 \\x00 ok")
            return {}
    """)("run")
    assert "caf" in seen._outcome.ranks[0].log and "ok" in seen._outcome.ranks[0].log


def test_a_right_answer_comes_back_to_the_bit(submit: Callable) -> None:
    """Inputs of each rank go in, tensors come out, per rank and unchanged."""
    inputs = {"x": [np.arange(4, dtype=np.float32) + rank for rank in range(2)]}
    seen = submit("""
        def run(inputs):
            x = inputs["x"].clone()
            dist.all_reduce(x)
            return {"y": x, "mine": inputs["x"]}
    """)("run", world_size=2, inputs=inputs, returns={"y": ("float32", (4,)), "mine": ("float32", (4,))})
    for rank in range(2):
        assert seen.rank(rank)["y"].tolist() == [1.0, 3.0, 5.0, 7.0]
        assert seen.rank(rank)["mine"].tolist() == inputs["x"][rank].tolist()
    assert seen.wire.sent_bytes(0, phase="run") == 16


def test_the_recorder_on_gloo_tells_the_same_story(submit: Callable) -> None:
    """Calls, bytes and lines are also known when the traffic goes over gloo."""
    seen = submit("""
        def run(inputs):
            x = torch.ones(4)
            dist.all_reduce(x)
            return {"y": x}
    """)("run", world_size=2, returns={"y": ("float32", (4,))}, transport="gloo")
    assert seen.rank(1)["y"].tolist() == [2.0] * 4
    assert seen.wire.operations(0, phase="run") == {"all_reduce"} and seen.wire.sent_bytes(0, phase="run") == 16
    assert [event.at for event in seen.events(rank=0, op="all_reduce", kind="issue")] == ["tiny.py:4"]


def test_a_hang_on_gloo_names_who_waits_where(submit: Callable) -> None:
    """Idle clocks on every rank for a while: the call that never ends is named."""
    seen = submit("""
        def run(inputs):
            if dist.get_rank() == 0:
                dist.recv(torch.empty(2), 1)
            else:
                dist.recv(torch.empty(2), 0)
    """)("run", world_size=2, transport="gloo", limits=Limits(cpu_s=2.0, wall_s=20.0, idle_s=0.6))
    assert seen.fault is not None and seen.fault.kind in {"idle", "deadlock"}, seen.fault
    assert "recv" in seen.explain() and "tiny.py:4" in seen.explain() and "tiny.py:6" in seen.explain()


@pytest.mark.usefixtures("no_walls")  # or there would be no daemons
def test_nothing_is_left_of_a_run_whose_daemons_hide(submit: Callable, runs: Runs, tmp_path: Path) -> None:
    """A grandchild in a session of its own, started by a rank that then ends, is killed with the run."""
    note = tmp_path / "pids"
    submit(f"""
        import subprocess
        def run(inputs):
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    open({str(note)!r}, "w").write(f"{{os.getpid()}} {{child.pid}}")
                    time.sleep(600)
                os._exit(0)
            while not os.path.exists({str(note)!r}):
                time.sleep(0.01)
            os.chmod(".", 0)
            return {{}}
    """)("run")
    for pid in map(int, note.read_text().split()):
        assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    assert not list(runs._zygotes["torch"]._session.iterdir())


def test_what_was_said_before_a_kill_is_kept(submit: Callable) -> None:
    """A rank that is killed in the middle leaves its trace up to there."""
    seen = submit("""
        def run(inputs):
            dist.all_reduce(torch.ones(2))
            os.kill(os.getpid(), 9)
    """)("run", world_size=2)
    assert [event.op for event in seen.events(rank=0, kind="issue", phase="run")] == ["all_reduce"]


def test_facts_and_marks_travel_beside_tensors(submit: Callable) -> None:
    """A probe's numbers and moments reach the judge."""
    seen = submit("")("answer_with_facts", inputs={"x": np.ones(2, np.float32)}, returns={"y": ("float32", (2,))})
    assert seen.facts(0) == {"cores": 2}
    assert [event.facts for event in seen.events(kind="mark") if event.name == "moment"] == [{"depth": 3}]


def test_equal_requests_share_one_run(submit: Callable) -> None:
    """The second of two equal requests is answered from the store, to the process id."""
    observe = submit("def run(inputs):\n    return {'pid': torch.tensor(os.getpid())}\n")
    first, second = (observe("run", returns={"pid": ("int64", ())}).rank(0)["pid"] for _ in range(2))
    assert first == second != os.getpid()


def test_breakpoint_in_a_graded_rank_says_how_to_debug(submit: Callable) -> None:
    """There is no terminal in a graded rank; the error carries the very command that has one."""
    seen = submit("def run(inputs):\n    breakpoint()\n")("run")
    assert "grader debug" in seen.explain() and seen.key[:12] in seen.explain()


def test_nothing_of_torch_is_imported_late(submit: Callable) -> None:
    """The zygote has imported what ranks use: a dispatch mode, a FLOP counter, a hook bring no further module of torch's."""
    seen = submit("""
        from torch.utils.flop_counter import FlopCounterMode
        def run(inputs):
            before = set(sys.modules)
            layer = torch.nn.Linear(4, 4)
            with FlopCounterMode(display=False):
                layer(torch.ones(2, 4)).sum().backward()
            torch.optim.AdamW(layer.parameters()).step()
            dist.all_reduce(torch.ones(2))
            late = sorted(m for m in set(sys.modules) - before if m.split(".")[0] in ("torch", "numpy", "sympy"))
            return {"late": torch.tensor(len(late))} if not late else sys.exit(str(late))
    """)("run", world_size=2, returns={"late": ("int64", ())})
    assert seen.rank(0)["late"] == 0


def test_a_file_that_never_ends_being_imported_is_run_three_times_only(submit: Callable, runs: Runs) -> None:
    """A grading asks a hundred times: the others are answered by the first, with the same line, and use nothing; what is mended is run."""
    observe = submit("while True:\n    pass\n")
    before = runs.spent.num_runs
    faults = [observe("run", world_size=1 + number % 2, limits=SHORT, asked=number).fault for number in range(6)]
    assert {fault.kind for fault in faults} == {"cpu_limit"} and runs.spent.num_runs - before == 3
    assert all("it is at tiny.py:" in fault.sentence for fault in faults)
    assert [fault.sentence.endswith("; so it was in 3 runs, and no other was begun") for fault in faults] == [False] * 3 + [True] * 3
    assert submit("def run(inputs):\n    return {}\n")("run", limits=SHORT).fault is None


@pytest.mark.parametrize(
    ("content", "seen", "asks"),
    [
        (b"#" * 2**21, "tiny.py is larger than 1 MiB, the limit for one source file; it is not graded.", False),
        (bytes(range(256)) * 4, "tiny.py line 2: there are bytes that are not utf-8", False),
        (None, "tiny.py is not in what was handed in", True),
    ],
    ids=["too large", "bytes", "absent"],
)
def test_a_file_that_could_not_be_taken_is_told_by_what_is_wrong_with_it(
    content: bytes | None, seen: str, asks: bool, runs: Runs, tmp_path: Path
) -> None:
    """Not by its absence: whoever handed it in would look for it in vain."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / ("tiny.py" if content is not None else "notes.txt")).write_bytes(content or b"nothing")
    tiny = Assignment("tiny", 1, "Tiny", ("tiny.py",), ())
    taken = replace(intake(tiny, tmp_path / "in", into=tmp_path / "taken"), origin="what was handed in")
    with pytest.raises(SubmissionError) as told:
        Observer(runs, {"tiny": tiny}, {"tiny": taken}).for_case("tiny", False, "test_tiny")("run")
    assert told.value.message.seen.startswith(seen) and bool(told.value.message.suggestion) is asks


def test_a_function_that_never_ends_is_run_whenever_it_is_asked_for(submit: Callable, runs: Runs) -> None:
    """Another function of the same file may be right."""
    observe = submit("""
        def run(inputs, asked):
            while asked < 4:
                pass
            return {}
    """)
    assert [observe("run", limits=SHORT, asked=number).fault is None for number in range(5)] == [False] * 4 + [True]


def test_a_run_leaves_the_clock_alone(submit: Callable) -> None:
    """A rank that goes silent is ended by its limit, whatever the others do, and the others' waiting is explained by it."""
    began = time.monotonic()
    seen = submit("""
        def run(inputs):
            if dist.get_rank() == 1:
                while True:
                    pass
            dist.barrier()
    """)("run", world_size=2, limits=SHORT)
    assert seen.fault is not None and (seen.fault.kind, seen.fault.rank) == ("cpu_limit", 1)
    assert "rank 0 waits in barrier" in seen.explain()
    assert time.monotonic() - began < 10
