"""Compiling Triton kernels for GPUs that aren't there: each launch becomes a compilation, and what it needs on the chip is told.

In the flavour "compiler" Triton is imported without its interpreter. Nothing is run, so what a submission returns holds no values.
"""

from __future__ import annotations

import contextlib
import inspect
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import triton
from triton.compiler.errors import CompilationError
from triton.runtime.jit import JITFunction

from grader.records import Json
from grader.worker.triton_target import pretend

TENSOR_CORE = re.compile(r"\b(?:wgmma\.mma_async|mma\.sync|tcgen05\.mma)\b")
RESOURCES = re.compile(r"REG:(\d+)\s+STACK:(\d+)")
ASSERTION = re.compile(r"AssertionError\((['\"])(.*)\1\)")  # Triton quotes its own assertions so
SENTENCE_LIMIT_CHARACTERS = 600


@contextlib.contextmanager
def compiling(capability: int) -> Iterator[list[Json]]:
    """Inside, a launch compiles its kernel for that compute capability. Yields the list that grows by one fact per launch:

    {kernel, capability, shared_bytes, registers, stack_bytes, tensor_core_instructions}, or {kernel, capability, error: a sentence}.
    """
    pretend(capability)
    facts: list[Json] = []
    run = JITFunction.run

    def compiled_instead(kernel: Any, *arguments: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        told: dict[str, Json] = {"kernel": kernel.__name__, "capability": capability}
        facts.append(told)
        try:
            binary = run(kernel, *arguments, grid=grid, warmup=True, **options)
        except Exception as error:
            told["error"] = sentence_of(kernel, error)
            return None
        told |= {"shared_bytes": int(binary.metadata.shared), "tensor_core_instructions": len(TENSOR_CORE.findall(binary.asm["ptx"]))}
        told |= resources_of(binary.asm["cubin"])
        return binary

    JITFunction.run = compiled_instead
    try:
        yield facts
    finally:
        JITFunction.run = run


def resources_of(cubin: bytes) -> dict[str, int]:
    """What the assembler decided: registers of a thread, and the bytes of its stack, which is where registers are spilled to."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        tool = triton.knobs.nvidia.cuobjdump.path
        printed = subprocess.run([tool, "--dump-resource-usage", str(path)], capture_output=True, text=True, check=True).stdout
    found = RESOURCES.findall(printed)
    if not found:
        raise RuntimeError(f"cuobjdump tells no resources: {printed[:200]}")
    registers, stack_bytes = (max(int(pair[i]) for pair in found) for i in (0, 1))
    return {"registers": registers, "stack_bytes": stack_bytes}


def line_of_def(function: Any) -> int:
    """The line of a function's `def`, below its decorators: Triton's line numbers begin there."""
    lines, first_line = inspect.getsourcelines(function)
    return first_line + next((number for number, line in enumerate(lines) if line.lstrip().startswith("def ")), 0)


def sentence_of(kernel: Any, error: Exception) -> str:
    """Why a kernel didn't compile, with the submission's file and line where Triton knows it."""
    place = ""
    innermost: BaseException = error
    while isinstance(innermost, CompilationError):  # an error inside a called function comes wrapped in one for each call
        node = getattr(innermost, "node", None)
        if node is not None and innermost is error:
            place = f" at {Path(kernel.fn.__code__.co_filename).name}:{line_of_def(kernel.fn) + node.lineno - 1}"
        if innermost.__cause__ is None:
            break
        innermost = innermost.__cause__
    words = " ".join(str(getattr(innermost, "error_message", None) or innermost or type(innermost).__name__).split())
    asserted = ASSERTION.fullmatch(words)
    return f"{kernel.__name__} does not compile{place}: {(asserted[2] if asserted else words)[:SENTENCE_LIMIT_CHARACTERS]}"
