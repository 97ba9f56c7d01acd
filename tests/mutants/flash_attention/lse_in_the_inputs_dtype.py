"""Returns lse in q's dtype, like o.

law: flash_attention.tiled.log_sum_exp_is_natural
says: float32
"""
# region solution tiled_attention
    B, H, T, D = q_BHTD.shape
    G, S = k_BGSD.shape[1], k_BGSD.shape[2]
    scale = D**-0.5 if scale is None else scale
    o_BHTD = torch.empty(q_BHTD.shape, dtype=q_BHTD.dtype, device=q_BHTD.device)
    lse_BHT = torch.empty((B, H, T), dtype=q_BHTD.dtype, device=q_BHTD.device)
    for first_q in range(0, T, block_q):
        q = q_BHTD[:, :, first_q : first_q + block_q].float() * scale
        rows = q.shape[2]
        sees = torch.arange(first_q, first_q + rows, device=q.device) + 1 + S - T if causal else torch.full((rows,), S, device=q.device)
        m = torch.full((B, H, rows), float("-inf"), device=q.device)
        total = torch.zeros((B, H, rows), device=q.device)
        acc = torch.zeros((B, H, rows, D), device=q.device)
        for first_k in range(0, max(0, int(sees[-1])), block_k):
            k = k_BGSD[:, :, first_k : first_k + block_k].float().repeat_interleave(H // G, dim=1)
            v = v_BGSD[:, :, first_k : first_k + block_k].float().repeat_interleave(H // G, dim=1)
            s = q @ k.transpose(-1, -2)
            offs_k = torch.arange(first_k, first_k + k.shape[2], device=q.device)
            s = s.masked_fill(offs_k >= sees[:, None], float("-inf"))
            m_new = torch.maximum(m, s.amax(-1))
            base = m_new.masked_fill(m_new == float("-inf"), 0.0)
            p = torch.exp(s - base[..., None])
            shrink = torch.exp(m - base)
            total = total * shrink + p.sum(-1)
            acc = acc * shrink[..., None] + p @ v
            m = m_new
        o_BHTD[:, :, first_q : first_q + block_q] = acc / total.masked_fill(total == 0, 1.0)[..., None]
        lse_BHT[:, :, first_q : first_q + block_q] = m + torch.log(total)
    return o_BHTD, lse_BHT
# endregion
