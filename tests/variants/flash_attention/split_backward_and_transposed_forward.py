"""Forward holds scores with keys down and queries across, in base e, with a loop without a mask and one with it, and tiles of its own;
backward has three kernels, of which the first makes delta from pointers of any layout.
"""
# region solution forward_kernel
    first_q, head = tl.program_id(0) * BLOCK_Q, tl.program_id(1)
    b, h = head // num_heads, head % num_heads
    g = h // num_sharing
    offs_q = first_q + tl.arange(0, BLOCK_Q)
    offs_k = tl.arange(0, BLOCK_K)
    sees = tl.zeros([BLOCK_Q], tl.int32) + num_keys
    whole = num_keys // BLOCK_K * BLOCK_K
    end = num_keys
    if CAUSAL:
        sees = tl.minimum(offs_q + 1 + num_keys - num_queries, num_keys)
        whole = tl.minimum(tl.maximum(first_q + 1 + num_keys - num_queries, 0), num_keys) // BLOCK_K * BLOCK_K
        end = tl.maximum(tl.minimum(first_q + BLOCK_Q, num_queries) + num_keys - num_queries, 0)
    q = q_desc.load([b, h, first_q, 0]).reshape(BLOCK_Q, BLOCK_D)
    m = tl.full([BLOCK_Q], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_Q], tl.float32)
    acc = tl.zeros([BLOCK_Q, BLOCK_D], tl.float32)
    for first_k in range(0, whole, BLOCK_K):  # every query of the block sees all of these
        k = k_desc.load([b, g, first_k, 0]).reshape(BLOCK_K, BLOCK_D)
        v = v_desc.load([b, g, first_k, 0]).reshape(BLOCK_K, BLOCK_D)
        s = tl.dot(k, tl.trans(q), input_precision="ieee") * scale
        m_new = tl.maximum(m, tl.max(s, 0))
        p = tl.exp(s - m_new[None, :])
        shrink = tl.exp(m - m_new)
        total = total * shrink + tl.sum(p, 0)
        acc = acc * shrink[:, None] + tl.dot(tl.trans(p.to(v.dtype)), v, input_precision="ieee")
        m = m_new
    for first_k in range(whole, end, BLOCK_K):
        k = k_desc.load([b, g, first_k, 0]).reshape(BLOCK_K, BLOCK_D)
        v = v_desc.load([b, g, first_k, 0]).reshape(BLOCK_K, BLOCK_D)
        s = tl.dot(k, tl.trans(q), input_precision="ieee") * scale
        is_seen = (first_k + offs_k)[:, None] < sees[None, :]
        m_new = tl.maximum(m, tl.max(tl.where(is_seen, s, float("-inf")), 0))
        p = tl.where(is_seen, tl.exp(s - m_new[None, :]), 0.0)
        shrink = tl.where(m == float("-inf"), 0.0, tl.exp(m - m_new))
        total = total * shrink + tl.sum(p, 0)
        acc = acc * shrink[:, None] + tl.dot(tl.trans(p.to(v.dtype)), v, input_precision="ieee")
        m = m_new
    o = acc * tl.where(total > 0.0, 1.0 / total, 0.0)[:, None]
    o_desc.store([b, h, first_q, 0], o.to(q.dtype).reshape(1, 1, BLOCK_Q, BLOCK_D))
    lse = tl.where(total > 0.0, m + tl.log(total), float("-inf"))
    tl.store(lse_ptr + head * num_queries + offs_q, lse, mask=offs_q < num_queries)
# endregion
# region solution flash_attention_forward
    B, H, T, D = q_BHTD.shape
    G, S = k_BGSD.shape[1], k_BGSD.shape[2]
    scale = D**-0.5 if scale is None else scale
    q, k, v = (describable(x) for x in (q_BHTD, k_BGSD, v_BGSD))
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty((B, H, T), dtype=torch.float32, device=q.device)
    tiles = Tiling(block_q or 64, block_k or 32, num_warps=4, num_stages=1)
    forward_kernel[(triton.cdiv(T, tiles.block_q), B * H)](
        describe(q, tiles.block_q), describe(k, tiles.block_k), describe(v, tiles.block_k), describe(o, tiles.block_q), lse,
        H, H // G, T, S, scale, heads_in_l2(k), CAUSAL=causal, **launch_options(tiles, D),
    )  # fmt: skip
    return o, lse
# endregion
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
    do = do_desc.load([b, h, first_q, 0]).reshape(BLOCK_Q, BLOCK_D)
    delta = tl.load(delta_ptr + head * num_queries + offs_q, mask=offs_q < num_queries, other=0.0)
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
    @jit
    def delta_kernel(
        o_ptr, do_ptr, delta_ptr, stride_ob, stride_oh, stride_ot, stride_od, stride_gb, stride_gh, stride_gt, stride_gd,
        num_heads, num_queries, head_dim, BLOCK_Q: tl.constexpr, BLOCK_D: tl.constexpr,
    ):  # fmt: skip
        b, h = tl.program_id(1) // num_heads, tl.program_id(1) % num_heads
        offs_q = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
        offs_d = tl.arange(0, BLOCK_D)
        mask = (offs_q < num_queries)[:, None] & (offs_d < head_dim)[None, :]
        o = tl.load(o_ptr + b * stride_ob + h * stride_oh + offs_q[:, None] * stride_ot + offs_d[None, :] * stride_od, mask=mask, other=0.0)
        do_tile = do_ptr + b * stride_gb + h * stride_gh + offs_q[:, None] * stride_gt + offs_d[None, :] * stride_gd
        do = tl.load(do_tile, mask=mask, other=0.0)
        delta = tl.sum(o.to(tl.float32) * do.to(tl.float32), axis=1)
        tl.store(delta_ptr + tl.program_id(1) * num_queries + offs_q, delta, mask=offs_q < num_queries)

    B, H, T, D = q_BHTD.shape
    G, S = k_BGSD.shape[1], k_BGSD.shape[2]
    scale = D**-0.5 if scale is None else scale
    do, q, k, v, o = (describable(x) for x in (do_BHTD, q_BHTD, k_BGSD, v_BGSD, o_BHTD))
    lse = lse_BHT.contiguous()
    delta = torch.empty_like(lse)
    dq, dk, dv = (torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in (q, k, v))
    tiles = tiling_for("backward_q", q, block_q, block_k)
    delta_kernel[(triton.cdiv(T, tiles.block_q), B * H)](
        o_BHTD, do_BHTD, delta, *o_BHTD.stride(), *do_BHTD.stride(), H, T, D, BLOCK_Q=tiles.block_q, BLOCK_D=triton.next_power_of_2(D)
    )
    q_desc, o_desc, do_desc, dq_desc = (describe(x, tiles.block_q) for x in (q, o, do, dq))
    backward_q_kernel[(triton.cdiv(T, tiles.block_q) * B * H,)](
        q_desc, describe(k, tiles.block_k), describe(v, tiles.block_k), o_desc, do_desc, dq_desc, lse, delta,
        H, H // G, T, S, T, scale, heads_in_l2(k), CAUSAL=causal, **launch_options(tiles, D),
    )  # fmt: skip
    tiles = tiling_for("backward_kv", q, block_q, block_k)
    k_desc, v_desc, dk_desc, dv_desc = (describe(x, tiles.block_k) for x in (k, v, dk, dv))
    backward_kv_kernel[(triton.cdiv(S, tiles.block_k) * B * G,)](
        describe(q, tiles.block_q), k_desc, v_desc, describe(do, tiles.block_q), dk_desc, dv_desc, lse, delta,
        G, H // G, T, S, scale, heads_in_l2(q), CAUSAL=causal, **launch_options(tiles, D),
    )  # fmt: skip
    return dq, dk, dv
# endregion
