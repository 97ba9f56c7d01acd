"""FlashAttention's backward in one pass, for Hopper, in Gluon: an experiment, which no GPU has run yet.

The readable file makes dq in one kernel and dk and dv in another: seven products, since scores and their gradients are made twice. Here a
program owns 128 keys and makes all three, in five products; dq is added up in float32 in memory, because many programs have a part of it.
Two consumers own 64 keys each. A consumer keeps dk and dv in registers, and works on blocks of 64 queries: scores and their gradients stand
transposed (keys by queries), so that weights go from registers straight into dv's product; ds goes through shared memory, since dq needs
that of both consumers, of which each makes half of the columns. dk and dq of a block are made while the next one's exponentials are.

It compiles for Hopper, and tests/grader/kernels plays it on the host. What it is worth nobody has measured: grader/design/kernels.md.
"""

# B batch, H query heads, G key/value heads (H is a multiple of G), T queries, S keys, D head dim
from __future__ import annotations

import flash_attention as readable
import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma, warpgroup_mma, warpgroup_mma_wait
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from tests.benchmarks import flash_attention_hopper as forward
from tests.benchmarks.flash_attention_hopper import describe_tiles, signal, wait_free, wait_full

ROWS = 64  # keys of a consumer, and queries of a block
BLOCK_D = 128  # narrower heads are padded with zeros, those up to 64 left to the readable kernels
LOG2_E = 1.4426950408889634
NUM_CONSUMERS, NUM_STAGES, NUM_REGISTERS, CONSUMER_REGISTERS = 2, 2, 168, 240


# --- before and after: numbers of rows, and dq's sums -------------------------------------------------------------------
@gluon.jit
def prepare_kernel(
    o_ptr, do_ptr, lse_ptr, sums_ptr, lse2_ptr, delta_ptr,
    num_heads, num_queries, num_columns, head_dim, o_b, o_h, o_t, do_b, do_h, do_t,
    ROWS: gl.constexpr, BLOCK_D: gl.constexpr,
):  # fmt: skip
    """Of a block of queries of one head: delta, their lse to base 2, and zeros where dq will be added up.

    sums_ptr                 float32, contiguous (B, H, T', BLOCK_D), T' a multiple of ROWS
    lse2_ptr, delta_ptr      float32, contiguous (B H, num_columns)
    o_b … do_t               strides of o and do
    """
    of_tile: gl.constexpr = gl.BlockedLayout([1, 8], [32 // (BLOCK_D // 8), BLOCK_D // 8], [4, 1], [1, 0])
    num_blocks = (num_queries + ROWS - 1) // ROWS
    head, first = gl.program_id(0) // num_blocks, gl.program_id(0) % num_blocks * ROWS
    rows = first + gl.arange(0, ROWS, gl.SliceLayout(1, of_tile))
    cols = gl.arange(0, BLOCK_D, gl.SliceLayout(0, of_tile))
    inside = (rows < num_queries)[:, None] & (cols < head_dim)[None, :]
    b, h = head // num_heads, head % num_heads
    o = gl.load(o_ptr + (b * o_b + h * o_h) + rows[:, None] * o_t + cols[None, :], mask=inside, other=0.0)
    do = gl.load(do_ptr + (b * do_b + h * do_h) + rows[:, None] * do_t + cols[None, :], mask=inside, other=0.0)
    delta = gl.sum(o.to(gl.float32) * do.to(gl.float32), 1)
    lse = gl.load(lse_ptr + head * num_queries + rows, mask=rows < num_queries, other=0.0)
    gl.store(delta_ptr + head * num_columns + rows, delta, mask=rows < num_queries)
    gl.store(lse2_ptr + head * num_columns + rows, lse * 1.4426950408889634, mask=rows < num_queries)
    sums = sums_ptr + (head * num_blocks * ROWS + first) * BLOCK_D + (rows - first)[:, None] * BLOCK_D + cols[None, :]
    gl.store(sums, gl.zeros([ROWS, BLOCK_D], gl.float32, of_tile))


@gluon.jit
def finish_kernel(sums_ptr, dq_ptr, num_queries, head_dim, scale, ROWS: gl.constexpr, BLOCK_D: gl.constexpr):
    """dq, contiguous (B, H, T, D), of a block of its sums."""
    of_tile: gl.constexpr = gl.BlockedLayout([1, 8], [32 // (BLOCK_D // 8), BLOCK_D // 8], [4, 1], [1, 0])
    num_blocks = (num_queries + ROWS - 1) // ROWS
    head, first = gl.program_id(0) // num_blocks, gl.program_id(0) % num_blocks * ROWS
    rows = gl.arange(0, ROWS, gl.SliceLayout(1, of_tile))
    cols = gl.arange(0, BLOCK_D, gl.SliceLayout(0, of_tile))
    dq = gl.load(sums_ptr + (head * num_blocks * ROWS + first) * BLOCK_D + rows[:, None] * BLOCK_D + cols[None, :])
    inside = (first + rows < num_queries)[:, None] & (cols < head_dim)[None, :]
    there = dq_ptr + (head * num_queries + first) * head_dim + rows[:, None] * head_dim + cols[None, :]
    gl.store(there, (dq * scale).to(dq_ptr.dtype.element_ty), mask=inside)


# --- the loading warp ------------------------------------------------------------------------------------------------
@gluon.jit
def load(descs, tiles, full, free, where, turns, NUM_CONSUMERS: gl.constexpr):
    """Keys and values once; then, block by block, queries with their lse, and the gradient of the output with its delta."""
    q_desc, k_desc, v_desc, do_desc, lse_desc, delta_desc = descs
    q_tiles, k_tiles, v_tiles, do_tiles, lse_tiles, delta_tiles = tiles
    q_full, do_full, kv_full, _ = full
    q_free, do_free = free
    b, g, num_kv_heads, num_sharing, first_k = where
    first_q, num_turns, _ = turns
    ROWS: gl.constexpr = q_desc.block_type.shape[2]
    mbarrier.expect(kv_full.index(0), 2 * NUM_CONSUMERS * k_desc.block_type.nbytes)
    for consumer in gl.static_range(NUM_CONSUMERS):
        tma.async_copy_global_to_shared(k_desc, [b, g, first_k + consumer * ROWS, 0], kv_full.index(0), k_tiles.index(consumer))
        tma.async_copy_global_to_shared(v_desc, [b, g, first_k + consumer * ROWS, 0], kv_full.index(0), v_tiles.index(consumer))
    for i in range(num_sharing * num_turns):
        h = g * num_sharing + i // num_turns
        row = b * num_kv_heads * num_sharing + h
        at = first_q + i % num_turns * ROWS
        slot = i % q_full.shape[0]
        wait_free(q_free, i)
        mbarrier.expect(q_full.index(slot), q_desc.block_type.nbytes + lse_desc.block_type.nbytes)
        tma.async_copy_global_to_shared(q_desc, [b, h, at, 0], q_full.index(slot), q_tiles.index(slot))
        tma.async_copy_global_to_shared(lse_desc, [row, at], q_full.index(slot), lse_tiles.index(slot))
        wait_free(do_free, i)
        mbarrier.expect(do_full.index(slot), do_desc.block_type.nbytes + delta_desc.block_type.nbytes)
        tma.async_copy_global_to_shared(do_desc, [b, h, at, 0], do_full.index(slot), do_tiles.index(slot))
        tma.async_copy_global_to_shared(delta_desc, [row, at], do_full.index(slot), delta_tiles.index(slot))


# --- a consumer: four warps ------------------------------------------------------------------------------------------
@gluon.jit
def begin_dk_and_dq(i, dk, tiles, ds_tiles, full, CONSUMER: gl.constexpr, NUM_CONSUMERS: gl.constexpr):
    """What block `i` adds to dk, and this consumer's columns of its dq: 1 + NUM_CONSUMERS products on their way."""
    q_tiles, k_tiles, _, _, _, _ = tiles
    _, _, _, ds_full = full
    ROWS: gl.constexpr = q_tiles.shape[3]
    BLOCK_D: gl.constexpr = q_tiles.shape[4]
    COLS: gl.constexpr = BLOCK_D // NUM_CONSUMERS
    slot = i % q_tiles.shape[0]
    q = q_tiles.index(slot).reshape((ROWS, BLOCK_D))
    dk_to_be = warpgroup_mma(ds_tiles.index(slot * NUM_CONSUMERS + CONSUMER), q, dk, is_async=True)
    wait_full(ds_full, i)
    dq_to_be = gl.zeros([ROWS, COLS], gl.float32, gl.NVMMADistributedLayout([3, 0], [4, 1], [16, COLS, 16]))
    for j in gl.static_range(NUM_CONSUMERS):
        k_cols = k_tiles.index(j).reshape((ROWS, BLOCK_D)).slice(CONSUMER * COLS, COLS, 1)
        ds = ds_tiles.index(slot * NUM_CONSUMERS + j).permute((1, 0))
        dq_to_be = warpgroup_mma(ds, k_cols, dq_to_be, use_acc=j > 0, is_async=True)
    return dk_to_be, dq_to_be


@gluon.jit
def add_to_sums(dq, sums, CONSUMER: gl.constexpr, BLOCK_D: gl.constexpr):
    """This consumer's columns of dq, to which other programs add as well."""
    ROWS: gl.constexpr = dq.shape[0]
    COLS: gl.constexpr = dq.shape[1]
    of_dq: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, COLS, 16])
    rows = gl.arange(0, ROWS, gl.SliceLayout(1, of_dq))
    cols = CONSUMER * COLS + gl.arange(0, COLS, gl.SliceLayout(0, of_dq))
    gl.atomic_add(sums + rows[:, None] * BLOCK_D + cols[None, :], dq, sem="relaxed")


@gluon.jit
def work_on(
    i, first_q, sums_before, dk, dv, tiles, ds_tiles, full, free, sizes, first_k, log2_scale,
    CAUSAL: gl.constexpr, MASKED: gl.constexpr, FIRST: gl.constexpr, CONSUMER: gl.constexpr, NUM_CONSUMERS: gl.constexpr,
):  # fmt: skip
    """Block `i` of queries: dv, and ds; and dk and dq of the block before it, whose sums lie at `sums_before`."""
    q_tiles, k_tiles, v_tiles, do_tiles, lse_tiles, delta_tiles = tiles
    q_full, do_full, _, ds_full = full
    q_free, do_free = free
    num_queries, num_keys = sizes
    ROWS: gl.constexpr = q_tiles.shape[3]
    BLOCK_D: gl.constexpr = q_tiles.shape[4]
    of_s: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, ROWS, 16])
    of_d: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_D, 16])
    slot = i % q_tiles.shape[0]
    k = k_tiles.index(CONSUMER).reshape((ROWS, BLOCK_D))
    v = v_tiles.index(CONSUMER).reshape((ROWS, BLOCK_D))
    do = do_tiles.index(slot).reshape((ROWS, BLOCK_D))
    none_yet = gl.zeros([ROWS, ROWS], gl.float32, of_s)

    wait_full(q_full, i)
    s_to_be = warpgroup_mma(k, q_tiles.index(slot).reshape((ROWS, BLOCK_D)).permute((1, 0)), none_yet, use_acc=False, is_async=True)
    if FIRST:
        s = warpgroup_mma_wait(0, deps=(s_to_be,))
    else:
        dk_to_be, dq_to_be = begin_dk_and_dq(i - 1, dk, tiles, ds_tiles, full, CONSUMER, NUM_CONSUMERS)
        s = warpgroup_mma_wait(NUM_CONSUMERS + 1, deps=(s_to_be,))
    p = gl.exp2(s * log2_scale - lse_tiles.index(slot).load(of_s))
    if MASKED:
        offs_k = first_k + CONSUMER * ROWS + gl.arange(0, ROWS, gl.SliceLayout(1, of_s))
        offs_q = first_q + gl.arange(0, ROWS, gl.SliceLayout(0, of_s))
        seen = (offs_k < num_keys)[:, None] & (offs_q < num_queries)[None, :]
        if CAUSAL:
            seen = seen & (offs_k[:, None] <= offs_q[None, :])
        p = gl.where(seen, p, 0.0)
    if not FIRST:
        dk = warpgroup_mma_wait(NUM_CONSUMERS, deps=(dk_to_be,))
        signal(q_free, i - 1)
        dq = warpgroup_mma_wait(0, deps=(dq_to_be,))
        add_to_sums(dq, sums_before, CONSUMER, BLOCK_D)
    wait_full(do_full, i)
    dp_to_be = warpgroup_mma(v, do.permute((1, 0)), none_yet, use_acc=False, is_async=True)
    p_narrow = gl.convert_layout(p.to(q_tiles.dtype), gl.DotOperandLayout(0, of_d, 2))
    dv_to_be = warpgroup_mma(p_narrow, do, dv, is_async=True)
    dp = warpgroup_mma_wait(1, deps=(dp_to_be,))
    ds = (p * (dp - delta_tiles.index(slot).load(of_s))).to(q_tiles.dtype)
    # Nobody reads this slot any more: that block's ds is full means that the other consumer has done with the one before it.
    ds_tiles.index(slot * NUM_CONSUMERS + CONSUMER).store(ds)
    fence_async_shared()
    signal(ds_full, i)
    dv, p_narrow = warpgroup_mma_wait(0, deps=(dv_to_be, p_narrow))
    signal(do_free, i)
    return dk, dv


@gluon.jit
def consume(
    dk_desc, dv_desc, sums_ptr, tiles, ds_tiles, full, free, where, turns, sizes, log2_scale, scale,
    CAUSAL: gl.constexpr, CONSUMER: gl.constexpr, NUM_CONSUMERS: gl.constexpr,
):  # fmt: skip
    """dk and dv of this consumer's 64 keys, and its columns of every dq."""
    b, g, num_kv_heads, num_sharing, first_k = where
    first_turn, num_turns, num_masked = turns
    q_tiles, _, v_tiles, _, _, _ = tiles
    _, _, kv_full, _ = full
    num_queries, _ = sizes
    ROWS: gl.constexpr = q_tiles.shape[3]
    BLOCK_D: gl.constexpr = q_tiles.shape[4]
    of_d: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_D, 16])
    dk = gl.zeros([ROWS, BLOCK_D], gl.float32, of_d)
    dv = gl.zeros([ROWS, BLOCK_D], gl.float32, of_d)
    num_rows = (num_queries + ROWS - 1) // ROWS * ROWS
    sums_of_head = sums_ptr + ((b * num_kv_heads + g) * num_sharing * num_rows + first_turn) * BLOCK_D
    sums = sums_of_head

    mbarrier.wait(kv_full.index(0), 0)
    dk, dv = work_on(
        0, first_turn, sums, dk, dv, tiles, ds_tiles, full, free, sizes, first_k, log2_scale, CAUSAL, True, True, CONSUMER, NUM_CONSUMERS
    )
    i = 1
    for sharing in range(num_sharing):
        first_here = 0
        if sharing == 0:
            first_here = 1
        for turn in range(first_here, gl.maximum(num_masked, first_here)):
            dk, dv = work_on(
                i, first_turn + turn * ROWS, sums, dk, dv, tiles, ds_tiles, full, free, sizes, first_k, log2_scale,
                CAUSAL, True, False, CONSUMER, NUM_CONSUMERS,
            )  # fmt: skip
            i += 1
            sums = sums_of_head + turn * ROWS * BLOCK_D
        for turn in range(gl.maximum(num_masked, first_here), num_turns):
            dk, dv = work_on(
                i, first_turn + turn * ROWS, sums, dk, dv, tiles, ds_tiles, full, free, sizes, first_k, log2_scale,
                CAUSAL, False, False, CONSUMER, NUM_CONSUMERS,
            )  # fmt: skip
            i += 1
            sums = sums_of_head + turn * ROWS * BLOCK_D
        sums_of_head += num_rows * BLOCK_D

    dk_to_be, dq_to_be = begin_dk_and_dq(i - 1, dk, tiles, ds_tiles, full, CONSUMER, NUM_CONSUMERS)
    own = v_tiles.index(CONSUMER)  # its keys' values, which nobody needs any more
    own.reshape((ROWS, BLOCK_D)).store(dv.to(q_tiles.dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(dv_desc, [b, g, first_k + CONSUMER * ROWS, 0], own)
    dk, dq = warpgroup_mma_wait(0, deps=(dk_to_be, dq_to_be))
    add_to_sums(dq, sums, CONSUMER, BLOCK_D)
    tma.store_wait(0)
    own.reshape((ROWS, BLOCK_D)).store((dk * scale).to(q_tiles.dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(dk_desc, [b, g, first_k + CONSUMER * ROWS, 0], own)
    tma.store_wait(0)


@gluon.jit
def backward_kernel(
    q_desc, k_desc, v_desc, do_desc, lse_desc, delta_desc, dk_desc, dv_desc, sums_ptr,
    num_kv_heads, num_sharing, num_queries, num_keys, log2_scale, scale, heads_together,
    CAUSAL: gl.constexpr, NUM_CONSUMERS: gl.constexpr, STAGES: gl.constexpr, CONSUMER_REGISTERS: gl.constexpr,
):  # fmt: skip
    """dk and dv of NUM_CONSUMERS blocks of keys of one key/value head, and what they add to dq.

    q_desc … dv_desc               4-D descriptors of tiles of ROWS queries or keys of one head; lse and delta: 2-D, of [1, ROWS] numbers
    sums_ptr                       as `prepare_kernel` left them
    num_kv_heads, num_sharing      G, and H / G, which share a key/value head
    num_queries, num_keys          T and S; the same where CAUSAL
    log2_scale, scale              of the scores, with and without the factor for exponentials of base 2
    heads_together                 key/value heads (of all batches) whose blocks come together, for the L2 cache
    """
    ROWS: gl.constexpr = q_desc.block_type.shape[2]
    q_tiles = gl.allocate_shared_memory(q_desc.dtype, [STAGES] + q_desc.block_type.shape, q_desc.layout)
    do_tiles = gl.allocate_shared_memory(do_desc.dtype, [STAGES] + do_desc.block_type.shape, do_desc.layout)
    k_tiles = gl.allocate_shared_memory(k_desc.dtype, [NUM_CONSUMERS] + k_desc.block_type.shape, k_desc.layout)
    v_tiles = gl.allocate_shared_memory(v_desc.dtype, [NUM_CONSUMERS] + v_desc.block_type.shape, v_desc.layout)
    lse_tiles = gl.allocate_shared_memory(gl.float32, [STAGES] + lse_desc.block_type.shape, lse_desc.layout)
    delta_tiles = gl.allocate_shared_memory(gl.float32, [STAGES] + delta_desc.block_type.shape, delta_desc.layout)
    OF_DS: gl.constexpr = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
    ds_tiles = gl.allocate_shared_memory(q_desc.dtype, [STAGES * NUM_CONSUMERS, ROWS, ROWS], OF_DS)
    BARRIER: gl.constexpr = mbarrier.MBarrierLayout()
    kv_full = gl.allocate_shared_memory(gl.int64, [1, 1], BARRIER)
    q_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    q_free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    do_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    do_free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    ds_full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    mbarrier.init(kv_full.index(0), count=1)
    for stage in gl.static_range(STAGES):
        mbarrier.init(q_full.index(stage), count=1)
        mbarrier.init(do_full.index(stage), count=1)
        mbarrier.init(q_free.index(stage), count=NUM_CONSUMERS)
        mbarrier.init(do_free.index(stage), count=NUM_CONSUMERS)
        mbarrier.init(ds_full.index(stage), count=NUM_CONSUMERS)

    # Within a group of heads the first keys come first: if causal, most queries see them.
    num_blocks = (num_keys + ROWS * NUM_CONSUMERS - 1) // (ROWS * NUM_CONSUMERS)
    program = gl.program_id(0)
    first_head = program // (heads_together * num_blocks) * heads_together
    num_here = gl.minimum(gl.num_programs(0) // num_blocks - first_head, heads_together)
    place = program % (heads_together * num_blocks)
    head, first_k = first_head + place % num_here, place // num_here * (ROWS * NUM_CONSUMERS)
    first_q, num_masked = 0, 0
    if CAUSAL:
        first_q = first_k
    num_turns = (num_queries - first_q + ROWS - 1) // ROWS
    if CAUSAL:
        num_masked = gl.minimum(NUM_CONSUMERS, num_turns)
    if first_k + ROWS * NUM_CONSUMERS > num_keys:  # weights of keys beyond the end would be anything, and 0 times that
        num_masked = num_turns

    tiles = (q_tiles, k_tiles, v_tiles, do_tiles, lse_tiles, delta_tiles)
    full, free = (q_full, do_full, kv_full, ds_full), (q_free, do_free)
    descs = (q_desc, k_desc, v_desc, do_desc, lse_desc, delta_desc)
    where = (head // num_kv_heads, head % num_kv_heads, num_kv_heads, num_sharing, first_k)
    turns, sizes = (first_q, num_turns, num_masked), (num_queries, num_keys)
    R: gl.constexpr = CONSUMER_REGISTERS
    gl.warp_specialize([
        (consume, (dk_desc, dv_desc, sums_ptr, tiles, ds_tiles, full, free, where, turns, sizes, log2_scale, scale, CAUSAL, 0, 2)),
        (consume, (dk_desc, dv_desc, sums_ptr, tiles, ds_tiles, full, free, where, turns, sizes, log2_scale, scale, CAUSAL, 1, 2)),
        (load, (descs, tiles, full, free, where, turns, 2)),
    ], [4, 1], [R, 24])  # fmt: skip


def describe_rows(x_RT: torch.Tensor, num_columns: int) -> TensorDescriptor:
    """A descriptor of [1, ROWS] of the first `num_columns` numbers of a row; 0 outside."""
    layout = gl.NVMMASharedLayout(swizzle_byte_width=0, element_bitwidth=32, rank=2)
    return TensorDescriptor(x_RT, [x_RT.shape[0], num_columns], list(x_RT.stride()), [1, ROWS], layout)


def flash_attention_backward(
    do_BHTD: torch.Tensor, q_BHTD: torch.Tensor, k_BGSD: torch.Tensor, v_BGSD: torch.Tensor, o_BHTD: torch.Tensor, lse_BHT: torch.Tensor,
    *, causal: bool = False, scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """What `flash_attention.flash_attention_backward` returns, dq's last bits excepted, which differ from run to run; by its kernels
    where this one does not serve: heads of 64 or fewer, and what `flash_attention_hopper.is_served` leaves out.
    """
    batch, num_heads, num_queries, head_dim = q_BHTD.shape
    if head_dim <= 64 or not forward.is_served(q_BHTD, k_BGSD, causal):
        return readable.flash_attention_backward(do_BHTD, q_BHTD, k_BGSD, v_BGSD, o_BHTD, lse_BHT, causal=causal, scale=scale)
    num_kv_heads, num_keys = k_BGSD.shape[1:3]
    q, k, v, o, do = (readable.describable(x) for x in (q_BHTD, k_BGSD, v_BGSD, o_BHTD, do_BHTD))
    dq, dk, dv = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
    scale = head_dim**-0.5 if scale is None else scale
    num_blocks, num_columns = triton.cdiv(num_queries, ROWS), triton.cdiv(num_queries, 4) * 4  # descriptors' strides count in 16 bytes
    sums = torch.empty(batch, num_heads, num_blocks * ROWS, BLOCK_D, dtype=torch.float32, device=q.device)
    lse2, delta = (torch.empty(batch * num_heads, num_columns, dtype=torch.float32, device=q.device) for _ in range(2))

    by_blocks = (batch * num_heads * num_blocks,)
    prepare_kernel[by_blocks](
        o, do, lse_BHT.contiguous(), sums, lse2, delta, num_heads, num_queries, num_columns, head_dim, *o.stride()[:3], *do.stride()[:3],
        ROWS=ROWS, BLOCK_D=BLOCK_D, num_warps=4,
    )  # fmt: skip
    backward_kernel[(batch * num_kv_heads * triton.cdiv(num_keys, NUM_CONSUMERS * ROWS),)](
        *(describe_tiles(x, ROWS, BLOCK_D) for x in (q, k, v, do)), *(describe_rows(x, num_queries) for x in (lse2, delta)),
        *(describe_tiles(x, ROWS, BLOCK_D) for x in (dk, dv)), sums,
        num_kv_heads, num_heads // num_kv_heads, num_queries, num_keys, scale * LOG2_E, scale, readable.heads_in_l2(q),
        CAUSAL=causal, NUM_CONSUMERS=NUM_CONSUMERS, STAGES=NUM_STAGES, CONSUMER_REGISTERS=CONSUMER_REGISTERS,
        num_warps=4, maxnreg=NUM_REGISTERS,
    )  # fmt: skip
    finish_kernel[by_blocks](sums, dq, num_queries, head_dim, scale, ROWS=ROWS, BLOCK_D=BLOCK_D, num_warps=4)
    return dq, dk, dv


class FlashAttentionFunction(forward.FlashAttentionFunction):
    """The forward for Hopper, and this backward."""

    @staticmethod
    def backward(ctx, do_BHTD):
        """-> a gradient for each argument of `forward`: dq, dk, dv, and None for what isn't a tensor."""
        return *flash_attention_backward(do_BHTD, *ctx.saved_tensors, **ctx.options), None, None


def flash_attention(
    q_BHTD: torch.Tensor, k_BGSD: torch.Tensor, v_BGSD: torch.Tensor, *, causal: bool = False, scale: float | None = None
) -> torch.Tensor:
    """What `flash_attention.flash_attention` returns, differentiable likewise."""
    return FlashAttentionFunction.apply(q_BHTD, k_BGSD, v_BGSD, causal, scale)
