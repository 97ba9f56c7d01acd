"""Reads do with o's strides, though the gradient may lie in memory in another way.

law: flash_attention.backward.any_lengths_head_dims_and_layouts
says: do
"""
# region solution backward_q_kernel
    num_blocks = tl.cdiv(num_queries, BLOCK_Q)
    head, place = my_head_and_place(num_blocks, tl.num_programs(0) // num_blocks, heads_together)
    b, h = head // num_heads, head % num_heads
    g = h // num_sharing
    first_q = (num_blocks - 1 - place) * BLOCK_Q
    offs_q = first_q + tl.arange(0, BLOCK_Q)
    sees = tl.full([BLOCK_Q], 0, tl.int32) + num_keys
    end = num_keys
    if CAUSAL:
        sees = tl.minimum(offs_q + 1 + num_keys - num_queries, num_keys)
        end = tl.minimum(tl.maximum(first_q + BLOCK_Q + num_keys - num_queries, 0), num_keys)
    q = q_desc.load([b, h, first_q, 0]).reshape(BLOCK_Q, BLOCK_D)
    o = o_desc.load([b, h, first_q, 0]).reshape(BLOCK_Q, BLOCK_D)
    do = do_desc.load([b, h, first_q, 0]).reshape(BLOCK_Q, BLOCK_D)
    delta = tl.sum(o.to(tl.float32) * do.to(tl.float32), 1)
    tl.store(delta_ptr + head * num_queries + offs_q, delta, mask=offs_q < num_queries)
    lse = tl.load(lse_ptr + head * num_queries + offs_q, mask=offs_q < num_queries, other=0.0)
    dq = tl.zeros([BLOCK_Q, BLOCK_D], tl.float32)
    for first_k in tl.range(0, end, BLOCK_K, num_stages=NUM_STAGES):
        k = k_desc.load([b, g, first_k, 0]).reshape(BLOCK_K, BLOCK_D)
        v = v_desc.load([b, g, first_k, 0]).reshape(BLOCK_K, BLOCK_D)
        s = tl.dot(q, k.T, input_precision="ieee") * (scale * 1.4426950408889634)
        p = tl.exp2(s - (lse * 1.4426950408889634)[:, None])
        p = tl.where(first_k + tl.arange(0, BLOCK_K)[None, :] < sees[:, None], p, 0.0)
        dp = tl.dot(do, v.T, input_precision="ieee")
        ds = p * (dp - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq, input_precision="ieee")
    dq_desc.store([b, h, first_q, 0], (dq * scale).to(q.dtype).reshape(1, 1, BLOCK_Q, BLOCK_D))
# endregion
# region solution backward_kv_kernel
    num_blocks = tl.cdiv(num_keys, BLOCK_K)
    head, place = my_head_and_place(num_blocks, tl.num_programs(0) // num_blocks, heads_together)
    b, g = head // num_kv_heads, head % num_kv_heads
    first_k = place * BLOCK_K
    offs_k = first_k + tl.arange(0, BLOCK_K)
    start = 0
    if CAUSAL:
        start = tl.maximum(first_k + num_queries - num_keys, 0) // BLOCK_Q * BLOCK_Q
    k = k_desc.load([b, g, first_k, 0]).reshape(BLOCK_K, BLOCK_D)
    v = v_desc.load([b, g, first_k, 0]).reshape(BLOCK_K, BLOCK_D)
    dk = tl.zeros([BLOCK_K, BLOCK_D], tl.float32)
    dv = tl.zeros([BLOCK_K, BLOCK_D], tl.float32)
    for h in range(g * num_sharing, (g + 1) * num_sharing):
        row = (b * num_kv_heads * num_sharing + h) * num_queries
        for first_q in tl.range(start, num_queries, BLOCK_Q, num_stages=NUM_STAGES):
            offs_q = first_q + tl.arange(0, BLOCK_Q)
            q = q_desc.load([b, h, first_q, 0]).reshape(BLOCK_Q, BLOCK_D)
            do = do_desc.load([b, h, first_q, 0]).reshape(BLOCK_Q, BLOCK_D)
            lse = tl.load(lse_desc + row + offs_q, mask=offs_q < num_queries, other=0.0)
            delta = tl.load(delta_desc + row + offs_q, mask=offs_q < num_queries, other=0.0)
            s = tl.dot(k, q.T, input_precision="ieee") * (scale * 1.4426950408889634)
            p = tl.exp2(s - (lse * 1.4426950408889634)[None, :])
            is_seen = (offs_q < num_queries)[None, :]
            if CAUSAL:
                is_seen = is_seen & (offs_k[:, None] < (offs_q + 1 + num_keys - num_queries)[None, :])
            p = tl.where(is_seen, p, 0.0)
            dv = tl.dot(p.to(do.dtype), do, dv, input_precision="ieee")
            dp = tl.dot(v, do.T, input_precision="ieee")
            ds = p * (dp - delta[None, :])
            dk = tl.dot(ds.to(q.dtype), q, dk, input_precision="ieee")
    dk_desc.store([b, g, first_k, 0], (dk * scale).to(k.dtype).reshape(1, 1, BLOCK_K, BLOCK_D))
    dv_desc.store([b, g, first_k, 0], dv.to(v.dtype).reshape(1, 1, BLOCK_K, BLOCK_D))
# endregion
# region solution flash_attention_backward
    from dataclasses import replace

    B, H, T, D = q_BHTD.shape
    G, S = k_BGSD.shape[1], k_BGSD.shape[2]
    scale = D**-0.5 if scale is None else scale
    q, k, v, o = (describable(x) for x in (q_BHTD, k_BGSD, v_BGSD, o_BHTD))
    lse = lse_BHT.contiguous()
    delta = torch.empty_like(lse)
    dq, dk, dv = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
    tiles = tiling_for("backward_q", q, block_q, block_k)
    q_desc, o_desc, dq_desc = (describe(x, tiles.block_q) for x in (q, o, dq))
    do_desc = replace(o_desc, base=do_BHTD)
    backward_q_kernel[(triton.cdiv(T, tiles.block_q) * B * H,)](
        q_desc, describe(k, tiles.block_k), describe(v, tiles.block_k), o_desc, do_desc, dq_desc, lse, delta,
        H, H // G, T, S, T, scale, heads_in_l2(k), CAUSAL=causal, **launch_options(tiles, D),
    )  # fmt: skip
    tiles = tiling_for("backward_kv", q, block_q, block_k)
    k_desc, v_desc, dk_desc, dv_desc = (describe(x, tiles.block_k) for x in (k, v, dk, dv))
    backward_kv_kernel[(triton.cdiv(S, tiles.block_k) * B * G,)](
        describe(q, tiles.block_q), k_desc, v_desc, replace(describe(o, tiles.block_q), base=do_BHTD), dk_desc, dv_desc, lse, delta,
        G, H // G, T, S, scale, heads_in_l2(q), CAUSAL=causal, **launch_options(tiles, D),
    )  # fmt: skip
    return dq, dk, dv
# endregion
