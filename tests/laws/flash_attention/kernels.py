"""What the kernels did on the way: bytes, races, memory, and what they need on a chip."""

from __future__ import annotations

from typing import Any

from grader.errors import LawBroken
from grader.records import Message
from tests.laws.compiling import judge_it_compiles
from tests.laws.flash_attention.cases import Case

KIB = 1024
# Shared memory that one program can get, from NVIDIA's table of compute capabilities ("maximum amount of shared memory per thread block").
SHARED_BYTES_LIMIT = {75: 64 * KIB, 80: 163 * KIB, 90: 227 * KIB, 100: 227 * KIB}
HAS_TENSOR_CORES_IN_TRITON = {75: False, 80: True, 90: True, 100: True}
STACK_BYTES_LIMIT = 64
ITEMSIZE = {"float32": 4, "float16": 2, "bfloat16": 2}


# --- bytes -----------------------------------------------------------------------------------------------------------
def visible_rows(case: Case, block_q: int, block_k: int) -> tuple[int, int]:
    """Rows of k that one head's blocks of queries look at: exactly those that their last rows see, and in whole blocks of keys."""
    num_queries, num_keys = case.queries, case.k_shape[2]
    exact = in_blocks = 0
    for first in range(0, num_queries, block_q):
        last = min(first + block_q, num_queries) - 1
        seen = max(0, min(num_keys, last + 1 + num_keys - num_queries)) if case.causal else num_keys
        exact += seen
        in_blocks += min(num_keys, -(-seen // block_k) * block_k)
    return exact, in_blocks


def query_rows(case: Case, block_q: int, block_k: int) -> int:
    """Rows of q that one head's blocks of keys look at, from the block of queries on that holds the first query which sees them."""
    rows = 0
    for first in range(0, case.k_shape[2], block_k):
        start = max(0, first + case.queries - case.k_shape[2]) // block_q * block_q if case.causal else 0
        rows += case.queries - min(case.queries, start)
    return rows


def forward_bytes(case: Case, block_q: int, block_k: int) -> tuple[int, int]:
    """The fewest and the most bytes that the forward pass may load and store (section 7 of the handout)."""
    row = case.head_dim * ITEMSIZE[case.dtype]
    num_heads = case.batch * case.heads
    fewest, most = (
        num_heads * (2 * case.queries * row + 2 * rows * row + 4 * case.queries) for rows in visible_rows(case, block_q, block_k)
    )
    return fewest, most


def backward_bytes(case: Case, block_q: int, block_k: int) -> tuple[int, int]:
    """The same for the backward pass (section 9): every tensor once, and three passes over visible blocks."""
    row, num_queries, num_keys = case.head_dim * ITEMSIZE[case.dtype], case.queries, case.k_shape[2]
    _, key_rows = visible_rows(case, block_q, block_k)
    rows = query_rows(case, block_q, block_k)
    delta = 2 * num_queries * row + 4 * num_queries
    dq = 2 * num_queries * row + 8 * num_queries + 2 * key_rows * row + num_queries * row
    dk_dv = 2 * num_keys * row + rows * (2 * row + 8) + 2 * num_keys * row
    fewest = 3 * num_queries * row + 4 * num_queries + 4 * num_keys * row
    return case.batch * case.heads * fewest, case.batch * case.heads * (delta + dq + dk_dv)


def judge_forward_bytes(seen: Any, case: Case, block_q: int, block_k: int) -> None:
    """All loads and stores of each of the passes lie within the derived bounds, and o and lse are stored once."""
    fewest, most = forward_bytes(case, block_q, block_k)
    once = case.batch * case.heads * case.queries * (case.head_dim * ITEMSIZE[case.dtype] + 4)
    for launches in seen.facts(0)["kernels"]:
        _assert_within(launches, ("loaded_bytes", "stored_bytes"), fewest, most, "Section 7 of the handout derives it.")
        _assert_within(launches, ("stored_bytes",), once, once, "o and lse are stored once, and nothing else is.")


def judge_backward_bytes(seen: Any, case: Case, block_q: int, block_k: int) -> None:
    """All loads and stores together lie within the derived bounds."""
    fewest, most = backward_bytes(case, block_q, block_k)
    for launches in seen.facts(0)["kernels"]:
        _assert_within(launches, ("loaded_bytes", "stored_bytes"), fewest, most, "Section 9 of the handout derives it.")


def _assert_within(launches: list[Any], deeds: tuple[str, ...], fewest: int, most: int, where: str) -> None:
    moved = sum(sum(launch[deed].values()) for launch in launches for deed in deeds)
    if fewest <= moved <= most:
        return
    doing = " and ".join(deed.removesuffix("_bytes") for deed in deeds)
    allowed = f"exactly {most}" if fewest == most else f"{fewest} to {most}"
    lines = [f"{_words(deed)} by {launch['kernel']}: {_table(launch[deed])}" for launch in launches for deed in deeds]
    diagnosis = (
        f"That is {moved / most:.3g} times the traffic."
        if moved > most
        else "That is too little to have done the work in kernels with these blocks."
    )
    suggestion = (
        "Are invisible blocks skipped, and are block_q and block_k the ones that were given? Is anything read twice?"
        if moved > most
        else "Is the work done in a Triton kernel, and are block_q and block_k the ones that were given?"
    )
    raise LawBroken(
        Message(
            seen=f"{len(launches)} kernel launch{'es' * (len(launches) != 1)}, {moved} bytes {doing}.",
            allowed=f"Expected: {allowed} bytes. {where}",
            where="\n".join(lines),
            diagnosis=diagnosis,
            suggestion=suggestion,
        )
    )


def _words(deed: str) -> str:
    return deed.removesuffix("_bytes")


def _table(by_tensor: dict[str, int]) -> str:
    return ", ".join(f"{name} {num_bytes}" for name, num_bytes in sorted(by_tensor.items())) or "nothing"


# --- races -----------------------------------------------------------------------------------------------------------
def judge_no_race(seen: Any) -> None:
    """Kernels were launched, and no two programs of one touched the same memory in a race."""
    launches = [launch for each in seen.facts(0)["kernels"] for launch in each]
    if not launches:
        raise LawBroken(Message(seen="No kernel was launched.", suggestion="Is the work done in a Triton kernel?"))
    for launch in launches:
        if launch["races"]:
            raise LawBroken(
                Message(
                    seen=f"A race in kernel {launch['kernel']}: {launch['races'][0]}.",
                    where="\n".join(launch["races"][1:]),
                    diagnosis="It is a race: on a GPU these programs run at once, and what is read or kept is left to chance.",
                    suggestion="Let one program own what it writes, or add with tl.atomic_add.",
                )
            )


# --- chips -----------------------------------------------------------------------------------------------------------
def judge_compiled(seen: Any, *, may_spill: bool) -> None:
    """Every kernel compiled, fits into the chip's shared memory and uses tensor cores where Triton has them for the chip."""
    kernels = seen.facts(0)["kernels"]
    if not kernels:
        raise LawBroken(Message(seen="No kernel was launched.", suggestion="Is the work done in a Triton kernel?"))
    for kernel in kernels:
        name, chip = kernel["kernel"], f"sm_{kernel['capability']}"
        judge_it_compiles(kernel)
        limit = SHARED_BYTES_LIMIT[kernel["capability"]]
        if kernel["shared_bytes"] > limit:
            raise LawBroken(
                Message(
                    seen=f"{name} needs {kernel['shared_bytes']} bytes of shared memory on {chip}.",
                    allowed=f"Allowed: {limit} bytes, all there is.",
                    suggestion="Smaller blocks or fewer stages.",
                )
            )
        if not may_spill and kernel["stack_bytes"] > STACK_BYTES_LIMIT:
            raise LawBroken(
                Message(
                    seen=f"{name} spills {kernel['stack_bytes']} bytes of each thread's registers to memory on {chip}.",
                    allowed=f"Allowed: {STACK_BYTES_LIMIT} bytes.",
                    suggestion="Smaller blocks or more warps share the accumulators among more registers.",
                )
            )
    if HAS_TENSOR_CORES_IN_TRITON[kernels[0]["capability"]] and not any(kernel["tensor_core_instructions"] for kernel in kernels):
        raise LawBroken(
            Message(
                seen=f"No kernel uses tensor cores on sm_{kernels[0]['capability']}.",
                suggestion="Are the products made by tl.dot, with float16 operands?",
            )
        )


# --- memory ----------------------------------------------------------------------------------------------------------
def judge_kept(seen: Any, case: Case) -> None:
    """Between the passes q, k, v, o and lse are kept, and no more than a few numbers beside."""
    facts, few = seen.facts(0), 1 * KIB
    allowed = facts["input_bytes"] + case.batch * case.heads * case.queries * (case.head_dim * ITEMSIZE[case.dtype] + 4) + few
    if facts["kept_bytes"] > allowed:
        raise LawBroken(
            Message(
                seen=f"{facts['kept_bytes']} bytes are kept between forward and backward.",
                allowed=f"Allowed: {allowed}, which is q, k, v, o and lse, and {few} bytes beside.",
                diagnosis=f"It keeps {facts['kept_bytes'] / allowed:.3g} times as much as that.",
                suggestion="What else does ctx hold? Weights and scores can be made again; copies needn't be kept.",
            )
        )
