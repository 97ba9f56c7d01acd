"""Attention's bytes: what the kernels moved, tensor by tensor, beside dense attention, the derivation, and each tensor once."""

from __future__ import annotations

from collections import Counter
from math import prod

from grader.pictures.canvas import ROW, Picture, Scale, plain
from grader.records import ITEMSIZE, Outcome, Request

NAME_WIDTH = 200.0
STYLES = {"q": "compute0", "k": "compute1", "v": "compute2", "o": "compute3", "lse": "receives"}
OTHER, SCORES = "collective", "stuck"
PASSES_OVER_SCORES = 4  # the textbook writes the scores, reads them, writes the probabilities, reads them


def draw(request: Request, outcome: Outcome) -> Picture | None:
    """A watched forward pass. None where nothing was counted."""
    q, k = (request.input_of(name, 0).spec for name in "qk")
    counted = Counter[str]()
    for kernel in outcome.ranks[0].facts["kernels"][0]:
        for moved in (kernel["loaded_bytes"], kernel["stored_bytes"]):
            counted.update({str(name): int(num_bytes) for name, num_bytes in moved.items()})
    if not counted:
        return None
    once = {"q": q.num_bytes, "k": k.num_bytes, "v": k.num_bytes, "o": q.num_bytes, "lse": 4 * prod(q.shape[:3])}
    blocks = request.parameters["block_q"], request.parameters["block_k"]
    derived = derived_bytes(q.shape, k.shape[2], q.num_bytes // prod(q.shape), *blocks, causal=request.parameters["causal"])
    scores = prod(q.shape[:3]) * k.shape[2] * ITEMSIZE[q.dtype]
    dense = once | {"scores": PASSES_OVER_SCORES * scores}
    ways = {"dense": dense, "your kernels": dict(counted), "the derivation": derived, "each once": once}
    scale = Scale(float(max(sum(parts.values()) for parts in ways.values())), NAME_WIDTH)
    total = {name: sum(parts.values()) for name, parts in ways.items()}
    summary = (
        f"{plain(total['your kernels'])} bytes were moved, {plain(total['the derivation'])} are derived for blocks of {blocks[0]} queries "
        f"and {blocks[1]} keys; dense attention moves {plain(total['dense'])}, and {plain(total['each once'])} is each tensor once."
    )
    caption = "Bytes between memory and chip. The derivation is that of the handout's section 7, dense attention that of section 2."
    picture = Picture(caption, summary, columns=("way", "tensor", "bytes"), left=NAME_WIDTH)
    for name, parts in ways.items():
        _stack(picture, scale, f"{name}: {plain(total[name])}", parts)
    picture.ticks = scale.ticks()
    return picture.close()


def derived_bytes(q_shape: tuple[int, ...], num_keys: int, itemsize: int, block_q: int, block_k: int, *, causal: bool) -> dict[str, int]:
    """The handout's count for G = H (section 7): queries and outputs once, keys and values once for each block of queries."""
    batch, num_heads, num_queries, head_dim = q_shape
    rows = 0
    for first in range(0, num_queries, block_q):
        last = min(first + block_q, num_queries) - 1
        visible = max(0, min(num_keys, last + num_keys - num_queries + 1)) if causal else num_keys
        rows += min(num_keys, -(-visible // block_k) * block_k)
    heads = batch * num_heads
    own, others = heads * num_queries * head_dim * itemsize, heads * rows * head_dim * itemsize
    return {"q": own, "k": others, "v": others, "o": own, "lse": 4 * heads * num_queries}


def _stack(picture: Picture, scale: Scale, name: str, parts: dict[str, int]) -> None:
    """One way's tensors, side by side in one row."""
    top, so_far = picture.group(name, ROW), 0
    for tensor, num_bytes in parts.items():
        style = STYLES.get(tensor, SCORES if tensor == "scores" else OTHER)
        picture.legend.setdefault(style, tensor if style != OTHER else "others")
        words = f"{tensor}: {num_bytes:,} bytes"
        picture.bar(scale(so_far), num_bytes * scale.unit, top, ROW, style, tensor, words)
        picture.rows.append((name.partition(":")[0], tensor, f"{num_bytes:,}"))
        so_far += num_bytes
