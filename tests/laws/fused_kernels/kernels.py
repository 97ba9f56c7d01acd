"""What the kernels did on the way: bytes, races, memory, and what they need on a chip. Rules 4 to 7 of the handout."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from grader.errors import LawBroken
from grader.records import ITEMSIZE, KiB, Message, num_elements
from tests.laws.compiling import judge_it_compiles
from tests.laws.fused_kernels.cases import Case

# Shared memory that one program can get, from NVIDIA's table of compute capabilities ("maximum amount of shared memory per thread block").
SHARED_BYTES_LIMIT = {75: 64 * KiB, 80: 163 * KiB, 90: 227 * KiB}
STACK_BYTES_LIMIT = 64
KEPT_PER_ROW_BYTES = 16
FEW_BYTES = 256  # counters and the like
ROWS_PER_PARTIAL_SUM = 8
NO_KERNEL = "Is the work done in a Triton kernel, forward and backward?"


# --- bytes -----------------------------------------------------------------------------------------------------------
def judge_bytes_of_rows(seen: Any, case: Case) -> None:
    """RMSNorm, bias + GELU: x once and y once; backward x and dy once and dx once; little besides."""
    x_bytes, num_rows, dim = num_elements(case.shape) * ITEMSIZE[case.dtype], case.num_rows, case.shape[-1]
    parameter, kept = dim * ITEMSIZE[case.parameter_dtype], 8 * num_rows
    forward, backward = (_by_tensor(seen.facts(0)[name]) for name in ("forward", "backward"))
    # The tensor that comes in is called d by the probe and dy by the handout.
    _exactly("forward", "loaded", "x", forward, "x", x_bytes)
    _exactly("forward", "stored", "y", forward, "y", x_bytes)
    _at_most("forward", "loaded", f"of {case.parameter}", forward, {case.parameter}, num_rows * parameter)
    _at_most("forward", "loaded", "besides", forward, None, kept, beside={"x", case.parameter})
    _at_most("forward", "stored", "besides", forward, None, kept, beside={"y"})
    sums = -(-num_rows // ROWS_PER_PARTIAL_SUM) * dim * 4
    _exactly("backward", "loaded", "x", backward, "x", x_bytes)
    _exactly("backward", "loaded", "dy", backward, "d", x_bytes)
    _exactly("backward", "stored", "dx", backward, "dx", x_bytes)
    _at_most("backward", "loaded", f"of {case.parameter}", backward, {case.parameter}, num_rows * parameter)
    _at_most("backward", "loaded", "besides", backward, None, kept + 2 * sums, beside={"x", "d", case.parameter})
    _at_most("backward", "stored", "besides", backward, None, kept + sums + 4 * dim, beside={"dx"})


def judge_bytes_of_logits(seen: Any, case: Case) -> None:
    """Cross-entropy: the logits of rows that count once in each pass, the gradient stored once, little besides."""
    num_rows, num_classes = case.shape
    itemsize = ITEMSIZE[case.dtype]
    counting = int((seen.inputs["targets"] != case.ignoring).sum())
    at_least, once = counting * num_classes * itemsize, num_rows * num_classes * itemsize
    forward, backward = (_by_tensor(seen.facts(0)[name]) for name in ("forward", "backward"))
    _within("forward", "loaded", "logits", forward, "logits", at_least, once + num_rows * itemsize)
    _at_most("forward", "stored", "in all", forward, None, 64 * num_rows)
    _at_most("forward", "loaded", "besides", forward, None, 64 * num_rows, beside={"logits"})
    _at_most("backward", "loaded", "of logits", backward, {"logits"}, once)
    _exactly("backward", "stored", "dlogits", backward, "dlogits", once)
    # Each program may load the target, lse and the factor of its row; programs have blocks of 1024 classes or more.
    num_programs = num_rows * -(-num_classes // 1024)
    _at_most("backward", "loaded", "besides", backward, None, 64 * num_programs, beside={"logits"})
    _at_most("backward", "stored", "besides", backward, None, 64 * num_rows, beside={"dlogits"})


def _by_tensor(launches: list[Any]) -> dict[str, dict[str, int]]:
    """Bytes loaded and stored by all launches of a pass, by tensor."""
    total: dict[str, dict[str, int]] = {"loaded": defaultdict(int), "stored": defaultdict(int)}
    for launch in launches:
        for deed, of_deed in total.items():
            for tensor, num_bytes in launch[f"{deed}_bytes"].items():
                of_deed[tensor] += num_bytes
    return total


def _exactly(which: str, deed: str, words: str, moved: Any, tensor: str, expected: int) -> None:
    _within(which, deed, words, moved, tensor, expected, expected)


def _within(which: str, deed: str, words: str, moved: Any, tensor: str, fewest: int, most: int) -> None:
    got = moved[deed].get(tensor, 0)
    if fewest <= got <= most:
        return
    if got > most:
        times = got / most
        diagnosis = f"That is {times:.3g} times its size: {words} is {deed} more than once. One pass is enough."
        suggestion = "Hold what was loaded in registers. Masked lanes don't count: is every lane masked beyond the end?"
    else:
        diagnosis = f"The kernels have {deed} too little of {words} to have done the work on it in one pass."
        suggestion = f"{NO_KERNEL} If it is a copy that they read, that copy was another pass: read {words} where it lies."
    _refuse(which, f"{got} bytes of {words} {deed}", f"{fewest}" if fewest == most else f"{fewest} to {most}", moved, diagnosis, suggestion)


def _at_most(which: str, deed: str, words: str, moved: Any, tensors: set[str] | None, most: int, beside: set[str] = frozenset()) -> None:
    got = sum(num_bytes for tensor, num_bytes in moved[deed].items() if tensor not in beside and (tensors is None or tensor in tensors))
    if got > most:
        diagnosis = f"That is {got / most:.3g} times as much as is allowed." if most else "Nothing at all is allowed there."
        suggestion = "Is something in between written to memory, or a tensor read for a second time under another name? Fewer partial sums?"
        _refuse(which, f"{got} bytes {deed} {words}", f"at most {most}", moved, diagnosis, suggestion)


def _refuse(which: str, seen: str, allowed: str, moved: Any, diagnosis: str, suggestion: str) -> None:
    where = "\n".join(f"{deed}: {_table(moved[deed])}" for deed in ("loaded", "stored"))
    raise LawBroken(
        Message(
            seen=f"In the {which} pass: {seen}.",
            allowed=f"Allowed: {allowed}, by rule 4 of section 4 and section 7 of the handout.",
            where=where,
            diagnosis=diagnosis,
            suggestion=suggestion,
        )
    )


def _table(by_tensor: dict[str, int]) -> str:
    return ", ".join(f"{'dy' if name == 'd' else name} {num_bytes}" for name, num_bytes in sorted(by_tensor.items())) or "nothing"


# --- races -----------------------------------------------------------------------------------------------------------
def judge_no_race(seen: Any) -> None:
    """Kernels were launched in both passes, and no two programs of one touched the same memory in a race."""
    for which in ("forward", "backward"):
        launches = seen.facts(0)[which]
        if not launches:
            raise LawBroken(Message(seen=f"No kernel was launched in the {which} pass.", suggestion=NO_KERNEL))
        for launch in launches:
            if launch["races"]:
                raise LawBroken(
                    Message(
                        seen=f"A race in kernel {launch['kernel']}: {launch['races'][0]}.",
                        where="\n".join(launch["races"][1:]),
                        diagnosis="It is a race: on a GPU these programs run at once, and what is read or kept is left to chance.",
                        suggestion="Give every program a row of partial sums of its own, or add with tl.atomic_add to float32 zeros.",
                    )
                )


# --- memory ----------------------------------------------------------------------------------------------------------
def judge_kept(seen: Any, case: Case) -> None:
    """Between the passes only the inputs are kept, and a few bytes for each row."""
    facts = seen.facts(0)
    allowed = KEPT_PER_ROW_BYTES * case.num_rows + FEW_BYTES
    kept = facts["kept_bytes"]
    if facts["keeps_output"] and case.of != "cross_entropy":
        kept += num_elements(case.shape) * ITEMSIZE[case.dtype]
    if kept > allowed:
        times = kept / (num_elements(case.shape) * ITEMSIZE[case.dtype])
        raise LawBroken(
            Message(
                seen=f"{kept} bytes are kept between forward and backward, beside the inputs.",
                allowed=f"Allowed: {KEPT_PER_ROW_BYTES} for each row, {allowed} in all.",
                diagnosis=f"It keeps {times:.3g} times the size of {case.first}; only the inputs should be kept.",
                suggestion="Keep the inputs themselves, not copies of them, and make everything else again backward.",
            )
        )


def judge_nothing_is_asked(seen: Any, case: Case) -> None:
    """The host asks for no number, and for no shape, that the device has still to compute."""
    asked = seen.facts(0)["asked"]
    if asked:
        raise LawBroken(
            Message(
                seen=f"On the way through {case.of} the host asks for {' and '.join(sorted(set(asked)))}.",
                allowed="It may launch work, and ask for nothing that the device has still to compute.",
                diagnosis="On a GPU the host would wait here in every step.",
                suggestion="No .item(), no `if` on a tensor, no x[mask]: keep such numbers as tensors, and let a kernel load them.",
            )
        )


# --- chips -----------------------------------------------------------------------------------------------------------
def judge_compiled(seen: Any) -> None:
    """Both passes have kernels; every one compiles, fits into the chip's shared memory and spills next to nothing."""
    facts = seen.facts(0)
    kernels, num_forward = facts["kernels"], facts["num_forward"]
    if not num_forward or num_forward == len(kernels):
        which = "backward" if num_forward else "forward"
        raise LawBroken(Message(seen=f"No kernel was launched in the {which} pass.", suggestion=NO_KERNEL))
    for kernel in kernels:
        name, chip = kernel["kernel"], f"sm_{kernel['capability']}"
        judge_it_compiles(kernel)
        limit = SHARED_BYTES_LIMIT[kernel["capability"]]
        if kernel["shared_bytes"] > limit:
            raise LawBroken(
                Message(
                    seen=f"{name} needs {kernel['shared_bytes']} bytes of shared memory on {chip}.",
                    allowed=f"Allowed: {limit} bytes, all there is.",
                    suggestion="Smaller blocks.",
                )
            )
        if kernel["stack_bytes"] > STACK_BYTES_LIMIT:
            raise LawBroken(
                Message(
                    seen=f"{name} spills {kernel['stack_bytes']} bytes of each thread's registers to memory on {chip}.",
                    allowed=f"Allowed: {STACK_BYTES_LIMIT} bytes.",
                    suggestion="Smaller blocks or more warps: a block's elements are shared among 32 threads for each warp.",
                )
            )
