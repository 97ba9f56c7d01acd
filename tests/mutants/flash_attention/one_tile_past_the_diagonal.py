"""Ends the loop one key too late; all of it is masked, but where blocks meet the diagonal a whole tile more is loaded.

law: flash_attention.forward.moves_the_bytes_of_its_blocks
says: bytes
"""
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
        end = tl.minimum(tl.maximum(first_q + BLOCK_Q + 1 + num_keys - num_queries, 0), num_keys)
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
# region solution flash_attention_forward
    B, H, T, D = q_BHTD.shape
    G, S = k_BGSD.shape[1], k_BGSD.shape[2]
    scale = D**-0.5 if scale is None else scale
    q, k, v = (describable(x) for x in (q_BHTD, k_BGSD, v_BGSD))
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty((B, H, T), dtype=torch.float32, device=q.device)
    tiles = tiling_for("forward", q, block_q, block_k)
    forward_kernel[(triton.cdiv(T, tiles.block_q) * B * H,)](
        describe(q, tiles.block_q), describe(k, tiles.block_k), describe(v, tiles.block_k), describe(o, tiles.block_q), lse,
        H, H // G, T, S, scale, heads_in_l2(k), CAUSAL=causal, **launch_options(tiles, D),
    )  # fmt: skip
    return o, lse
# endregion
