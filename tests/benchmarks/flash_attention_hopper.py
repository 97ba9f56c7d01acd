"""FlashAttention's forward once more, for Hopper alone, in Gluon: what the readable kernel leaves to the compiler is written out.

Triton waits for a matrix product before it begins what follows, so that tensor cores idle during a softmax. Here products are
asynchronous. One warp loads tiles by the copy engine; two or three groups of four warps (consumers) own 64 queries each and take what it
loads. A consumer starts the scores of the next tile and the output of this one, and works on the softmax while both run; and consumers
take turns, so that one multiplies while another exponentiates. Programs stay, and each works through a list of blocks that the host has
made (`schedule`): the next block's tiles are on their way while the last one ends. Ideas: J. Shah et al., "FlashAttention-3", 2024.

Everything else, the backward pass included, is that of solutions/flash_attention.py, beside which flash_attention_speed.py measures it.
"""

# B batch, H query heads, G key/value heads (H is a multiple of G), T queries, S keys, D head dim
from __future__ import annotations

import functools
import heapq
from dataclasses import dataclass

import flash_attention as readable
import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma, warpgroup_mma, warpgroup_mma_wait
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

ROWS = 64  # of a consumer: what a warp group multiplies at once
BLOCK_K = 128


@dataclass(frozen=True)
class Plan:
    """How a program is made up."""

    num_consumers: int  # that share the keys and values that are loaded
    num_stages: int  # tiles of keys, and of values, in shared memory at once
    num_registers: int  # of a thread, on average
    consumer_registers: int  # of a consumer's; those of the loading group have 24
    l2_bytes: int  # of keys and values that are worked on together


# By the largest head dim that they serve, measured on an H200 in bfloat16. A processor has 65 536 registers, which one program takes.
PLANS = {64: Plan(3, 3, 128, 160, 8 << 20), 128: Plan(2, 2, 168, 240, 16 << 20)}


# --- which program works on what ----------------------------------------------------------------------------------------
@functools.lru_cache(maxsize=64)
def schedule(
    num_heads: int, num_queries: int, num_keys: int, causal: bool, block_q: int, heads_together: int, num_programs: int
) -> tuple[list[int], list[int]]:
    """Blocks of queries for each program -> (blocks, starts): program p works on `blocks[starts[p]:starts[p + 1]]`, in that order.

    A block is head · blocks of a head + its number. In groups of heads whose keys and values fit the L2 cache together, the longest
    blocks first, each to the program that is free first; a block takes a turn for each tile of keys that it sees, and one to begin and end.
    """
    num_blocks = -(-num_queries // block_q)
    free_at = [(0, program) for program in range(num_programs)]
    worked_on: list[list[int]] = [[] for _ in range(num_programs)]
    for first_head in range(0, num_heads, heads_together):
        for block in reversed(range(num_blocks)):
            num_seen = min((block + 1) * block_q, num_keys) if causal else num_keys
            for head in range(first_head, min(first_head + heads_together, num_heads)):
                at, program = free_at[0]
                worked_on[program].append(head * num_blocks + block)
                heapq.heapreplace(free_at, (at + 1 + -(-num_seen // BLOCK_K), program))
    starts = [0]
    for blocks in worked_on:
        starts.append(starts[-1] + len(blocks))
    return [block for blocks in worked_on for block in blocks], starts


@functools.lru_cache(maxsize=64)
def schedule_on(device: torch.device, *shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    """`schedule`, on the GPU; kept, since the same shape comes at every step."""
    blocks, starts = schedule(*shape)
    return torch.tensor(blocks, dtype=torch.int32, device=device), torch.tensor(starts, dtype=torch.int32, device=device)


# --- rings of tiles: use i lies in slot i % stages; of each slot, one barrier flips when it is full and one when it is free -------------
@gluon.jit
def wait_full(barriers, i):
    """Until the tile of use `i` has arrived."""
    mbarrier.wait(barriers.index(i % barriers.shape[0]), i // barriers.shape[0] & 1)


@gluon.jit
def wait_free(barriers, i):
    """Until nobody reads what lay in the slot of use `i` before; at once in the first round."""
    mbarrier.wait(barriers.index(i % barriers.shape[0]), i // barriers.shape[0] & 1 ^ 1)


@gluon.jit
def signal(barriers, i):
    """This consumer has done with use `i`."""
    mbarrier.arrive(barriers.index(i % barriers.shape[0]), count=1)


@gluon.jit
def load_tile(desc, place, tiles, full, free, i):
    """Ask the copy engine for the tile at `place`, as use `i` of its ring, once its slot is free."""
    wait_free(free, i)
    barrier = full.index(i % full.shape[0])
    mbarrier.expect(barrier, desc.block_type.nbytes)
    tma.async_copy_global_to_shared(desc, place, barrier, tiles.index(i % full.shape[0]))


@gluon.jit
def tiles_seen(first_q, num_rows, num_queries, num_keys, CAUSAL: gl.constexpr, BLOCK_K: gl.constexpr):
    """How many tiles of keys the queries from `first_q` on see; 0 where there are no queries."""
    num_seen = num_keys
    if CAUSAL:
        num_seen = gl.minimum(first_q + num_rows, num_keys)
    if first_q >= num_queries:
        num_seen = 0
    return (num_seen + BLOCK_K - 1) // BLOCK_K


@gluon.jit
def load(
    descs, tiles, full, free, work, sizes, CAUSAL: gl.constexpr, NUM_CONSUMERS: gl.constexpr
):  # fmt: skip
    """The loading warp: of each block its queries, then keys and values from the last to the first, keys one tile ahead."""
    blocks, starts, num_blocks = work
    num_heads, num_sharing, num_queries, num_keys = sizes
    q_desc, k_desc, v_desc = descs
    q_tiles, k_tiles, v_tiles = tiles
    q_full, k_full, v_full = full
    q_free, k_free, v_free = free
    ROWS: gl.constexpr = q_desc.block_type.shape[2]
    BLOCK_K: gl.constexpr = k_desc.block_type.shape[2]
    uses_q, uses_k = 0, 0
    for place in range(gl.load(starts + gl.program_id(0)), gl.load(starts + gl.program_id(0) + 1)):
        block = gl.load(blocks + place)
        head, first_q = block // num_blocks, block % num_blocks * (ROWS * NUM_CONSUMERS)
        b, h = head // num_heads, head % num_heads
        for consumer in gl.static_range(NUM_CONSUMERS):
            load_tile(q_desc, [b, h, first_q + consumer * ROWS, 0], q_tiles, q_full, q_free, uses_q + consumer)
        num_tiles = tiles_seen(first_q, ROWS * NUM_CONSUMERS, num_queries, num_keys, CAUSAL, BLOCK_K)
        for turn in range(num_tiles + 1):
            row = (num_tiles - 1 - turn) * BLOCK_K
            if turn < num_tiles:
                load_tile(k_desc, [b, h // num_sharing, row, 0], k_tiles, k_full, k_free, uses_k + turn)
            if turn > 0:
                load_tile(v_desc, [b, h // num_sharing, row + BLOCK_K, 0], v_tiles, v_full, v_free, uses_k + turn - 1)
        uses_q += NUM_CONSUMERS
        uses_k += num_tiles


@gluon.jit
def consume(
    o_desc, lse_ptr, tiles, o_tiles, full, free, turns, work, sizes, log2_scale,
    CAUSAL: gl.constexpr, CONSUMER: gl.constexpr, NUM_CONSUMERS: gl.constexpr,
):  # fmt: skip
    """One group of four warps: o and lse of its 64 queries of each block.

    In its turn it starts two products and passes the turn on; everything else happens while they run, and while others multiply.
    """
    blocks, starts, num_blocks = work
    num_heads, _, num_queries, num_keys = sizes
    q_tiles, k_tiles, v_tiles = tiles
    q_full, k_full, v_full = full
    q_free, k_free, v_free = free
    STAGES: gl.constexpr = k_tiles.shape[0]
    ROWS: gl.constexpr = q_tiles.shape[3]
    BLOCK_K: gl.constexpr = k_tiles.shape[3]
    BLOCK_D: gl.constexpr = q_tiles.shape[4]
    of_s: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_K, 16])
    of_o: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_D, 16])
    of_p: gl.constexpr = gl.DotOperandLayout(0, of_o, 2)
    rows_of_s: gl.constexpr = gl.SliceLayout(1, of_s)
    rows_of_o: gl.constexpr = gl.SliceLayout(1, of_o)
    NEXT: gl.constexpr = (CONSUMER + 1) % NUM_CONSUMERS
    q = q_tiles.index(CONSUMER).reshape((ROWS, BLOCK_D))
    no_scores = gl.zeros([ROWS, BLOCK_K], gl.float32, of_s)
    uses_q, uses_k = CONSUMER, 0  # of the rings; and every use of a tile of keys is a turn
    for place in range(gl.load(starts + gl.program_id(0)), gl.load(starts + gl.program_id(0) + 1)):
        block = gl.load(blocks + place)
        head, first_q = block // num_blocks, block % num_blocks * (ROWS * NUM_CONSUMERS)
        num_tiles = tiles_seen(first_q, ROWS * NUM_CONSUMERS, num_queries, num_keys, CAUSAL, BLOCK_K)
        first_q += CONSUMER * ROWS
        num_own = tiles_seen(first_q, ROWS, num_queries, num_keys, CAUSAL, BLOCK_K)
        wait_full(q_full, uses_q)
        for i in range(uses_k, uses_k + num_tiles - num_own):  # tiles that only later consumers see are let pass
            mbarrier.wait(turns.index(CONSUMER), i & 1)
            mbarrier.arrive(turns.index(NEXT), count=1)
            wait_full(k_full, i)
            signal(k_free, i)
            wait_full(v_full, i)
            signal(v_free, i)
        uses_k += num_tiles - num_own
        if num_own > 0:
            wait_full(k_full, uses_k)
            mbarrier.wait(turns.index(CONSUMER), uses_k & 1)
            k = k_tiles.index(uses_k % STAGES).reshape((BLOCK_K, BLOCK_D))
            s_to_be = warpgroup_mma(q, k.permute((1, 0)), no_scores, use_acc=False, is_async=True)
            mbarrier.arrive(turns.index(NEXT), count=1)
            s = warpgroup_mma_wait(0, deps=(s_to_be,))
            signal(k_free, uses_k)

            # Only the last tile needs a mask: 64 rows lie within one tile of 128 keys.
            offs_q = first_q + gl.arange(0, ROWS, rows_of_s)
            offs_k = (num_own - 1) * BLOCK_K + gl.arange(0, BLOCK_K, gl.SliceLayout(0, of_s))
            seen = gl.full([ROWS], num_keys, gl.int32, rows_of_s)
            if CAUSAL:
                seen = offs_q + 1
            s = gl.where(offs_k[None, :] < seen[:, None], s, -float("inf"))
            largest = gl.max(s, 1) * log2_scale
            p = gl.exp2(s * log2_scale - largest[:, None])
            total = gl.sum(p, 1)
            rescale = gl.full([ROWS], 1.0, gl.float32, rows_of_s)
            p_narrow = gl.convert_layout(p.to(q_tiles.dtype), of_p)
            o = gl.zeros([ROWS, BLOCK_D], gl.float32, of_o)
            for i in range(uses_k + 1, uses_k + num_own):
                wait_full(k_full, i)
                mbarrier.wait(turns.index(CONSUMER), i & 1)
                k = k_tiles.index(i % STAGES).reshape((BLOCK_K, BLOCK_D))
                s_to_be = warpgroup_mma(q, k.permute((1, 0)), no_scores, use_acc=False, is_async=True)
                o = o * gl.convert_layout(rescale, rows_of_o)[:, None]
                wait_full(v_full, i - 1)
                v = v_tiles.index((i - 1) % STAGES).reshape((BLOCK_K, BLOCK_D))
                o_to_be = warpgroup_mma(p_narrow, v, o, is_async=True)
                mbarrier.arrive(turns.index(NEXT), count=1)
                s = warpgroup_mma_wait(1, deps=(s_to_be,))
                signal(k_free, i)
                new_largest = gl.maximum(largest, gl.max(s, 1) * log2_scale)
                p = gl.exp2(s * log2_scale - new_largest[:, None])
                rescale = gl.exp2(largest - new_largest)
                total = total * rescale + gl.sum(p, 1)
                largest = new_largest
                o, p_narrow = warpgroup_mma_wait(0, deps=(o_to_be, p_narrow))
                signal(v_free, i - 1)
                p_narrow = gl.convert_layout(p.to(q_tiles.dtype), of_p)
            signal(q_free, uses_q)
            uses_k += num_own
            o = o * gl.convert_layout(rescale, rows_of_o)[:, None]
            wait_full(v_full, uses_k - 1)
            v = v_tiles.index((uses_k - 1) % STAGES).reshape((BLOCK_K, BLOCK_D))
            o_to_be = warpgroup_mma(p_narrow, v, o, is_async=True)
            o, p_narrow = warpgroup_mma_wait(0, deps=(o_to_be, p_narrow))
            signal(v_free, uses_k - 1)

            tma.store_wait(0)  # the last block's output has left shared memory
            o_tiles.index(CONSUMER).reshape((ROWS, BLOCK_D)).store((o / gl.convert_layout(total, rows_of_o)[:, None]).to(q_tiles.dtype))
            fence_async_shared()
            tma.async_copy_shared_to_global(o_desc, [head // num_heads, head % num_heads, first_q, 0], o_tiles.index(CONSUMER))
            lse = (largest + gl.log2(total)) * 0.6931471805599453  # back to base e
            gl.store(lse_ptr + head * num_queries + offs_q, lse, mask=offs_q < num_queries)
        else:
            signal(q_free, uses_q)
        uses_q += NUM_CONSUMERS
    tma.store_wait(0)


@gluon.jit
def forward_kernel(
    q_desc, k_desc, v_desc, o_desc, lse_ptr, blocks, starts,
    num_blocks, num_heads, num_sharing, num_queries, num_keys, log2_scale,
    CAUSAL: gl.constexpr, NUM_CONSUMERS: gl.constexpr, STAGES: gl.constexpr, CONSUMER_REGISTERS: gl.constexpr,
):  # fmt: skip
    """o and lse. The launch's own four warps are the first consumer; the others and the loading warp come beside them.

    q_desc … o_desc                4-D descriptors of tiles of ROWS queries or BLOCK_K keys of one head
    lse_ptr                        float32, contiguous (B, H, T)
    blocks, starts                 of `schedule`
    num_blocks                     of queries, of one head
    num_heads, num_sharing         H, the query heads of one batch, and H / G, which share a key/value head
    num_queries, num_keys          T and S; the same where CAUSAL
    log2_scale                     multiplies the scores, for exponentials of base 2
    """
    q_tiles = gl.allocate_shared_memory(q_desc.dtype, [NUM_CONSUMERS] + q_desc.block_type.shape, q_desc.layout)
    k_tiles = gl.allocate_shared_memory(k_desc.dtype, [STAGES] + k_desc.block_type.shape, k_desc.layout)
    v_tiles = gl.allocate_shared_memory(v_desc.dtype, [STAGES] + v_desc.block_type.shape, v_desc.layout)
    o_tiles = gl.allocate_shared_memory(o_desc.dtype, [NUM_CONSUMERS] + o_desc.block_type.shape, o_desc.layout)
    BARRIER: gl.constexpr = mbarrier.MBarrierLayout()
    q_full = gl.allocate_shared_memory(gl.int64, [NUM_CONSUMERS, 1], BARRIER)
    q_free = gl.allocate_shared_memory(gl.int64, [NUM_CONSUMERS, 1], BARRIER)
    turns = gl.allocate_shared_memory(gl.int64, [NUM_CONSUMERS, 1], BARRIER)
    k_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    k_free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    v_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    v_free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    for consumer in gl.static_range(NUM_CONSUMERS):
        mbarrier.init(q_full.index(consumer), count=1)
        mbarrier.init(q_free.index(consumer), count=1)
        mbarrier.init(turns.index(consumer), count=1)
    for stage in gl.static_range(STAGES):
        mbarrier.init(k_full.index(stage), count=1)
        mbarrier.init(v_full.index(stage), count=1)
        mbarrier.init(k_free.index(stage), count=NUM_CONSUMERS)
        mbarrier.init(v_free.index(stage), count=NUM_CONSUMERS)
    mbarrier.arrive(turns.index(0), count=1)  # the first turn is the first consumer's

    tiles, full, free = (q_tiles, k_tiles, v_tiles), (q_full, k_full, v_full), (q_free, k_free, v_free)
    work, sizes = (blocks, starts, num_blocks), (num_heads, num_sharing, num_queries, num_keys)
    descs = (q_desc, k_desc, v_desc)
    R: gl.constexpr = CONSUMER_REGISTERS
    # Numbers that are known to the compiler stay so only where they are arguments, so that nothing of these calls can be shared.
    if NUM_CONSUMERS == 2:
        gl.warp_specialize([
            (consume, (o_desc, lse_ptr, tiles, o_tiles, full, free, turns, work, sizes, log2_scale, CAUSAL, 0, 2)),
            (consume, (o_desc, lse_ptr, tiles, o_tiles, full, free, turns, work, sizes, log2_scale, CAUSAL, 1, 2)),
            (load, (descs, tiles, full, free, work, sizes, CAUSAL, 2)),
        ], [4, 1], [R, 24])  # fmt: skip
    else:
        gl.warp_specialize([
            (consume, (o_desc, lse_ptr, tiles, o_tiles, full, free, turns, work, sizes, log2_scale, CAUSAL, 0, 3)),
            (consume, (o_desc, lse_ptr, tiles, o_tiles, full, free, turns, work, sizes, log2_scale, CAUSAL, 1, 3)),
            (consume, (o_desc, lse_ptr, tiles, o_tiles, full, free, turns, work, sizes, log2_scale, CAUSAL, 2, 3)),
            (load, (descs, tiles, full, free, work, sizes, CAUSAL, 3)),
        ], [4, 4, 1], [R, R, 24])  # fmt: skip


def describe_tiles(x_BHTD: torch.Tensor, num_rows: int, block_d: int) -> TensorDescriptor:
    """A descriptor of tiles [1, 1, num_rows, block_d], in the layout in which warp groups multiply them."""
    block = [1, 1, num_rows, block_d]
    layout = gl.NVMMASharedLayout.get_default_for(block, gl.bfloat16 if x_BHTD.dtype == torch.bfloat16 else gl.float16)
    return TensorDescriptor(x_BHTD, list(x_BHTD.shape), list(x_BHTD.stride()), block, layout)


def is_served(q_BHTD: torch.Tensor, k_BGSD: torch.Tensor, causal: bool) -> bool:
    """Whether this kernel can do it: on Hopper, 16 bits, head dims up to 128, at least one key, and if causal as many as queries."""
    sixteen_bits = q_BHTD.dtype in (torch.bfloat16, torch.float16)
    on_hopper = q_BHTD.is_cuda and torch.cuda.get_device_capability(q_BHTD.device)[0] == 9
    lengths_fit = k_BGSD.shape[2] == q_BHTD.shape[2] if causal else k_BGSD.shape[2] > 0
    return sixteen_bits and on_hopper and lengths_fit and q_BHTD.shape[3] <= 128 and q_BHTD.numel() > 0


def flash_attention_forward(
    q_BHTD: torch.Tensor, k_BGSD: torch.Tensor, v_BGSD: torch.Tensor, *, causal: bool = False, scale: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """What `flash_attention.flash_attention_forward` returns; by its kernel where this one does not serve."""
    if not is_served(q_BHTD, k_BGSD, causal):
        return readable.flash_attention_forward(q_BHTD, k_BGSD, v_BGSD, causal=causal, scale=scale)
    batch, num_heads, num_queries, head_dim = q_BHTD.shape
    num_kv_heads, num_keys = k_BGSD.shape[1:3]
    q, k, v = (readable.describable(x) for x in (q_BHTD, k_BGSD, v_BGSD))
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    block_d = 64 if head_dim <= 64 else 128
    plan = PLANS[block_d]
    num_programs = torch.cuda.get_device_properties(q.device).multi_processor_count
    block_q = ROWS * plan.num_consumers
    blocks, starts = schedule_on(
        q.device, batch * num_heads, num_queries, num_keys, causal, block_q, readable.heads_in_l2(k, plan.l2_bytes), num_programs
    )
    forward_kernel[(num_programs,)](
        *(describe_tiles(x, num_rows, block_d) for x, num_rows in ((q, ROWS), (k, BLOCK_K), (v, BLOCK_K), (o, ROWS))),
        lse, blocks, starts,
        triton.cdiv(num_queries, block_q), num_heads, num_heads // num_kv_heads, num_queries, num_keys,
        (head_dim**-0.5 if scale is None else scale) * 1.4426950408889634,
        CAUSAL=causal, NUM_CONSUMERS=plan.num_consumers, STAGES=plan.num_stages, CONSUMER_REGISTERS=plan.consumer_registers,
        num_warps=4, maxnreg=plan.num_registers,
    )  # fmt: skip
    return o, lse


class FlashAttentionFunction(readable.FlashAttentionFunction):
    """This forward, and the readable file's backward, which takes the same lse."""

    @staticmethod
    def forward(ctx, q_BHTD, k_BGSD, v_BGSD, causal, scale):
        """-> o_BHTD."""
        o, lse = flash_attention_forward(q_BHTD, k_BGSD, v_BGSD, causal=causal, scale=scale)
        ctx.save_for_backward(q_BHTD, k_BGSD, v_BGSD, o, lse)
        ctx.options = {"causal": causal, "scale": scale}
        return o

    @staticmethod
    def backward(ctx, do_BHTD):
        """-> a gradient for each argument of `forward`: dq, dk, dv, and None for what isn't a tensor."""
        return readable.FlashAttentionFunction.backward(ctx, do_BHTD)[:5]


def flash_attention(
    q_BHTD: torch.Tensor, k_BGSD: torch.Tensor, v_BGSD: torch.Tensor, *, causal: bool = False, scale: float | None = None
) -> torch.Tensor:
    """What `flash_attention.flash_attention` returns, differentiable likewise."""
    return FlashAttentionFunction.apply(q_BHTD, k_BGSD, v_BGSD, causal, scale)
