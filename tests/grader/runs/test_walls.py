"""What a rank may not reach is refused, what honest work needs is there, and the label says what was seen and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.levels import LAYERS, NEEDED
from grader.observe.live import Runs
from grader.ranks.isolation import NOT_RUN, WORDS, label, level_in

ROOT = Path(__file__).resolve().parents[3]

REFUSED = {
    # name: what a rank tries; {judge} and {outside} are filled in
    "reads_the_course": "open({root!r} + '/pyproject.toml')",
    "reads_the_judges_code": "open({root!r} + '/grader/score.py')",
    "lists_what_is_outside": "os.listdir({outside!r})",
    "writes_outside": "open({outside!r} + '/new', 'w')",
    "changes_its_own_source": "open(__file__, 'r+')",
    "removes_its_own_source": "os.unlink(__file__)",
    "changes_a_mode": "os.chmod(__file__, 0o777)",
    "links_from_outside": "os.link(__file__, 'mine')",
    "reads_the_judges_memory": "open('/proc/{judge}/mem', 'rb')",
    "reads_the_judges_environment": "open('/proc/{judge}/environ', 'rb').read()",
    "reads_its_supervisors_environment": "open(f'/proc/{{os.getppid()}}/environ', 'rb').read()",
    "signals_the_judge": "os.kill({judge}, 0)",
    "signals_its_supervisor": "os.kill(os.getppid(), 0)",
    "lowers_the_judges_limits": "resource.prlimit({judge}, resource.RLIMIT_NOFILE)",
    "forks": "os.fork()",
    "runs_a_program": "os.execv('/bin/true', ['true'])",
    "opens_a_socket": "socket.socket()",
    "binds_a_name": "socket.socket(socket.AF_UNIX).bind('here')",
    "hides_memory": "os.memfd_create('hidden')",
    "raises_a_limit": "resource.setrlimit(resource.RLIMIT_NOFILE, (2**16, 2**16))",
    "writes_shared_memory": "open('/dev/shm/grader-test', 'w')",
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_rank_is_refused_what_is_not_its_own(submit: Callable, runs: Runs, tmp_path: Path, name: str) -> None:
    """An OSError or ValueError inside the rank, where the machine can build walls; where it can't, the label says what is possible."""
    outside = tmp_path / "outside"
    outside.mkdir()
    attempt = REFUSED[name].format(root=str(ROOT), judge=os.getpid(), outside=str(outside))
    seen = submit(f"""
        import resource, socket
        def run(inputs):
            try:
                {attempt}
            except (OSError, ValueError) as refused:
                return {{"refused": torch.ones(1)}}
            return {{"refused": torch.zeros(1)}}
    """)("run", returns={"refused": ("float32", (1,))})
    refused = bool(seen.rank(0)["refused"][0])
    assert refused if "isolation D" not in runs.isolation() else "a rank could" in runs.isolation(), runs.isolation()


def test_ranks_cannot_reach_each_other(submit: Callable, runs: Runs) -> None:
    """Folders, descriptors and memory of one rank are no way for another's numbers: what they share goes over the wire."""
    seen = submit("""
        def run(inputs):
            pids = [torch.zeros(1, dtype=torch.int64) for _ in range(2)]
            dist.all_gather(pids, torch.tensor([os.getpid()]))
            other, refused = int(pids[1 - dist.get_rank()]), 0
            open("mine", "w").write("x")
            dist.barrier()
            for path in (f"../rank{1 - dist.get_rank()}/mine", f"/proc/{other}/mem", f"/proc/{other}/environ"):
                try:
                    open(path, "rb").read(1)
                except OSError:
                    refused += 1
            try:
                os.kill(other, 0)
            except OSError:
                refused += 1
            dist.barrier()
            return {"refused": torch.tensor([refused])}
    """)("run", world_size=2, returns={"refused": ("int64", (1,))})
    assert [int(seen.rank(rank)["refused"][0]) for rank in range(2)] == [4, 4] or "isolation D" in runs.isolation()


@pytest.mark.parametrize("keeper", ["mmap.mmap(-1, 2**20)", "os.pipe()", "socket.socketpair()", "open('kept', 'wb').write(bytes(2**20))"])
def test_memory_that_no_limit_counts_is_refused_where_memory_is_limited(submit: Callable, runs: Runs, keeper: str) -> None:
    """Shared memory, the kernel's buffers and files would be ways round an enforced law; without a limit they are nobody's business."""
    from grader.records import Limits, MiB

    source = f"""
        import mmap, os, socket
        def run(inputs, limited):
            try:
                {keeper}
                return {{"got": torch.ones(1)}}
            except OSError:
                return {{"got": torch.zeros(1)}}
    """
    returns = {"got": ("float32", (1,))}
    limited = submit(source)("run", returns=returns, limited=True, limits=Limits(extra_bytes=64 * MiB)).rank(0)["got"][0]
    free = submit(source)("run", returns=returns, limited=False).rank(0)["got"][0]
    assert (limited, free) == (0, 1) or "isolation D" in runs.isolation()


def test_memory_taken_at_import_is_the_submissions_own(submit: Callable) -> None:
    """What was put by before there was a limit counts; a little, for code and constants, is let be."""
    from grader.records import Limits, MiB

    source = """
        kept = [torch.empty({put_by} * 2**20, dtype=torch.uint8)]
        def run(inputs, limited):
            kept.clear()
            return {{"got": torch.ones(24 * 2**20, dtype=torch.uint8)[:1].float()}}
    """
    limits, returns = Limits(extra_bytes=16 * MiB), {"got": ("float32", (1,))}
    fault = submit(source.format(put_by=32))("run", returns=returns, limited=True, limits=limits).fault
    assert fault is not None and fault.kind == "memory"
    assert submit(source.format(put_by=32).replace("24 *", "12 *"))("run", returns=returns, limited=True, limits=limits).rank(0)["got"] == 1


def test_a_library_that_a_submission_imports_is_not_its_memory(submit: Callable) -> None:
    """networkx, which torch brings, takes 12 MiB when it is imported, here at the top of the file and within the function."""
    from grader.records import Limits, MiB

    source = """
        import networkx
        def run(inputs, limited):
            import networkx.algorithms.flow
            return {"got": torch.ones(13 * 2**18)[:1]}
    """
    limits, returns = Limits(extra_bytes=16 * MiB), {"got": ("float32", (1,))}
    assert submit(source)("run", returns=returns, limited=True, limits=limits).rank(0)["got"] == 1


@pytest.mark.parametrize(("on_gpu", "capped"), [(False, False), (False, True), (True, False), (True, True)])
def test_files_are_no_memory_on_the_host_only(on_gpu: bool, capped: bool) -> None:
    """On a GPU compiled kernels are kept in files, and its memory is counted by its allocator."""
    program = (
        "import resource; from grader.worker import limits; "
        f"limits.set_at_start(on_gpu={on_gpu}, has_capped_memory={capped}); print(resource.getrlimit(resource.RLIMIT_FSIZE)[0])"
    )
    allowed_bytes = int(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True, cwd=ROOT).stdout)
    assert (allowed_bytes >= 2**26) is (on_gpu or not capped)


def test_honest_work_finds_what_it_needs(submit: Callable) -> None:
    """Temporary files, threads, late imports, clocks, random numbers, and the machine's figures."""
    seen = submit("""
        def run(inputs):
            import decimal, json, platform, random, sqlite3, tempfile, threading, torch.distributed.checkpoint
            with tempfile.TemporaryDirectory() as folder:
                torch.save(torch.ones(2), folder + "/t.pt")
                os.replace(folder + "/t.pt", folder + "/u.pt")
                loaded = torch.load(folder + "/u.pt")
            thread = threading.Thread(target=time.sleep, args=(0,))
            thread.start(); thread.join()
            assert os.cpu_count() and platform.platform() and random.SystemRandom().random() < 1 and open(__file__).read()
            os.kill(os.getpid(), 0)
            return {"y": loaded}
    """)("run", returns={"y": ("float32", (2,))})
    assert seen.rank(0)["y"].tolist() == [1, 1]


def test_an_observation_that_fills_the_disk_is_ended(submit: Callable) -> None:
    """Files of a size that is allowed, one after the other: the supervisor counts what they take together."""
    seen = submit("""
        def run(inputs):
            for number in range(20):
                with open(f"filler-{number}", "wb") as file:
                    os.posix_fallocate(file.fileno(), 0, 2**25)
            time.sleep(3600)
    """)("run")
    assert seen.fault is not None and seen.fault.kind == "crashed" and "SIGKILL" in seen.fault.sentence, seen.fault


def test_the_label_names_what_was_seen() -> None:
    """The worst of the processes counts; a layer whose canary got through is not claimed, and no level that needs it."""
    everything = {name: True for names in LAYERS.values() for name in names}
    best = {"flavour": "torch", "landlock": 7, "denied": everything}
    plain = "Landlock 7, seccomp, no capabilities, limits, threads counted"
    assert label([best]) == f"isolation A: namespaces, a user of its own, {plain}; loopback counted"

    def without(*names: str) -> dict[str, object]:
        return {"flavour": "interpreter", "landlock": 7, "denied": everything | dict.fromkeys(names, False)}

    assert label([best, without("user")]).startswith("isolation A: namespaces, Landlock 7")
    assert label([best, without("network")]) == f"isolation B: a user of its own, {plain}"
    assert label([without("user", "paths"), best]) == f"isolation C: {plain}"
    assert label([without("user", "paths", "threads")]) == "isolation C: Landlock 7, seccomp, no capabilities, limits"
    assert label([best, without("signal")]) == "isolation D: formative, not isolated; a rank could signal the judge"
    assert label([best | {"landlock": 0}]) == "isolation D: formative, not isolated; no Landlock"
    assert label([{"flavour": "torch", "landlock": 0, "denied": {}}]).endswith("a rank could do anything that its user may")
    assert label([best, {"flavour": "cuda", "denied": {}}]).endswith("; ranks on GPUs have limits only")
    assert label([]) == NOT_RUN
    assert sorted(name for layer in NEEDED["C"] for name in LAYERS[layer]) == sorted(WORDS)
    assert [level_in(text) for text in (label([best]), label([without("user", "host")]), label([]))] == ["A", "C", "D"]


def test_the_label_lies_beside_the_store_for_a_replay(submit: Callable, runs: Runs) -> None:
    """A replay starts no rank, and says what was denied when its observations were made."""
    submit("def run(inputs): return {}")("run")
    told = runs.isolation()
    assert told.startswith("isolation ") and Runs(runs.root, runs.store, replay=True).isolation() == told
