"""Tiled, one head after the other: keys from the last to the first, in base 2, with the denominator as one more column of the values and a
finite start of the maximum; in Triton, tiles of its own choice that are as wide as they are high; gradients that nobody needs are left out.
"""
# region solution tiled_attention
    B, H, T, D = q_BHTD.shape
    G, S = k_BGSD.shape[1], k_BGSD.shape[2]
    log2_scale = 1.4426950408889634 * (D**-0.5 if scale is None else scale)
    o_BHTD = torch.zeros(q_BHTD.shape, dtype=q_BHTD.dtype, device=q_BHTD.device)
    lse_BHT = torch.full((B, H, T), -torch.inf, device=q_BHTD.device)
    first_seeing = max(0, T - S) if causal else 0  # queries before it keep zeros and -inf
    for b, h in torch.cartesian_prod(torch.arange(B), torch.arange(H)).tolist():
        k_SD, v_SD = k_BGSD[b, h // (H // G)], v_BGSD[b, h // (H // G)]
        for first_q in range(first_seeing, T, block_q):
            q = q_BHTD[b, h, first_q : first_q + block_q].float() * log2_scale
            sees = first_q + 1 + S - T + torch.arange(len(q), device=q.device) if causal else torch.full((len(q),), S, device=q.device)
            m = torch.full((len(q),), -torch.finfo(torch.float32).max, device=q.device)
            sums = torch.zeros(len(q), D + 1, device=q.device)  # weighted values, and in the last column the weights themselves
            for first_k in reversed(range(0, int(sees[-1]), block_k)):
                k, v = (x[first_k : first_k + block_k].float() for x in (k_SD, v_SD))
                hidden = first_k + torch.arange(len(k), device=q.device) >= sees[:, None]
                s = (q @ k.T).masked_fill_(hidden, -torch.inf)
                m_old, m = m, torch.maximum(m, s.max(dim=1).values)
                weights = torch.exp2(s - m[:, None])
                values = torch.cat([v, torch.ones_like(v[:, :1])], dim=1)
                sums = torch.addmm(sums * torch.exp2(m_old - m)[:, None], weights, values)
            o_BHTD[b, h, first_q : first_q + block_q] = sums[:, :D] / sums[:, D:]
            lse_BHT[b, h, first_q : first_q + block_q] = (m + torch.log2(sums[:, D])) / 1.4426950408889634
    return o_BHTD, lse_BHT
# endregion
# region solution flash_attention_forward
    B, H, T, D = q_BHTD.shape
    G, S = k_BGSD.shape[1], k_BGSD.shape[2]
    scale = D**-0.5 if scale is None else scale
    q, k, v = (describable(x) for x in (q_BHTD, k_BGSD, v_BGSD))
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty((B, H, T), dtype=torch.float32, device=q.device)
    tiles = Tiling(block_q or 32, block_k or 32, num_warps=2, num_stages=3)
    forward_kernel[(triton.cdiv(T, tiles.block_q) * B * H,)](
        describe(q, tiles.block_q), describe(k, tiles.block_k), describe(v, tiles.block_k), describe(o, tiles.block_q), lse,
        H, H // G, T, S, scale, heads_in_l2(k), CAUSAL=causal, **launch_options(tiles, D),
    )  # fmt: skip
    return o, lse
# endregion
# region solution forward_kernel
    num_blocks = tl.cdiv(num_queries, BLOCK_Q)
    head, place = my_head_and_place(num_blocks, tl.num_programs(0) // num_blocks, heads_together)
    b, h = head // num_heads, head % num_heads
    g = h // num_sharing
    first_q = (num_blocks - 1 - place) * BLOCK_Q
    offs_q = first_q + tl.arange(0, BLOCK_Q)
    sees_first, end = num_keys, num_keys
    sees = tl.full([BLOCK_Q], 0, tl.int32) + num_keys
    if CAUSAL:
        sees = tl.minimum(offs_q + 1 + num_keys - num_queries, num_keys)
        sees_first = first_q + 1 + num_keys - num_queries
        end = tl.minimum(tl.maximum(first_q + BLOCK_Q + num_keys - num_queries, 0), num_keys)
    q = q_desc.load([b, h, first_q, 0]).reshape(BLOCK_Q, BLOCK_D)
    scale_log2 = scale * 1.4426950408889634
    m = tl.full([BLOCK_Q], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_Q], tl.float32)
    acc = tl.zeros([BLOCK_Q, BLOCK_D], tl.float32)
    for first_k in tl.range(0, end, BLOCK_K, num_stages=NUM_STAGES):
        k = k_desc.load([b, g, first_k, 0]).reshape(BLOCK_K, BLOCK_D)
        s = tl.dot(q, k.T, input_precision="ieee") * scale_log2
        if first_k + BLOCK_K > sees_first or first_k + BLOCK_K > num_keys:
            s = tl.where(first_k + tl.arange(0, BLOCK_K)[None, :] < sees[:, None], s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        base = tl.where(m_new == float("-inf"), 0.0, m_new)
        p = tl.exp2(s - base[:, None])
        shrink = tl.exp2(m - base)
        total = total * shrink + tl.sum(p, 1)
        v = v_desc.load([b, g, first_k, 0]).reshape(BLOCK_K, BLOCK_D)
        acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None], input_precision="ieee")
        m = m_new
    o = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    o_desc.store([b, h, first_q, 0], o.to(q.dtype).reshape(1, 1, BLOCK_Q, BLOCK_D))
    lse = (m + tl.log2(total)) * 0.6931471805599453
    tl.store(lse_ptr + head * num_queries + offs_q, lse, mask=offs_q < num_queries)
# endregion
# region solution function_forward
        options = dict(zip(("causal", "scale", "block_q", "block_k"), (causal, scale, block_q, block_k)))
        o_BHTD, lse_BHT = flash_attention_forward(q_BHTD.detach(), k_BGSD.detach(), v_BGSD.detach(), **options)
        ctx.save_for_backward(*(q_BHTD, k_BGSD, v_BGSD), o_BHTD, lse_BHT)
        ctx.causal, ctx.scale, ctx.block_q, ctx.block_k = causal, scale, block_q, block_k
        return o_BHTD
# endregion
# region solution function_backward
        q, k, v, o, lse = ctx.saved_tensors
        blocks = {"block_q": ctx.block_q, "block_k": ctx.block_k}
        gradients = flash_attention_backward(do_BHTD.contiguous(), q, k, v, o, lse, causal=ctx.causal, scale=ctx.scale, **blocks)
        return tuple(g if needed else None for g, needed in zip(gradients, ctx.needs_input_grad)) + (None,) * 4
# endregion
