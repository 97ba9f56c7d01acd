"""Repeats k and v for every query head and keeps the copies for the backward pass, which sums their gradients.

law: flash_attention.autograd.saves_no_more_than_the_tokens
says: keeps
"""
# region solution function_forward
        ctx.num_kv_heads = k_BGSD.shape[1]
        num_sharing = q_BHTD.shape[1] // ctx.num_kv_heads
        k_BGSD = k_BGSD.repeat_interleave(num_sharing, dim=1)
        v_BGSD = v_BGSD.repeat_interleave(num_sharing, dim=1)
        o_BHTD, lse_BHT = flash_attention_forward(
            q_BHTD, k_BGSD, v_BGSD, causal=causal, scale=scale, block_q=block_q, block_k=block_k
        )
        ctx.save_for_backward(q_BHTD, k_BGSD, v_BGSD, o_BHTD, lse_BHT)
        ctx.options = {"causal": causal, "scale": scale, "block_q": block_q, "block_k": block_k}
        return o_BHTD
# endregion
# region solution function_backward
        dq, dk, dv = flash_attention_backward(do_BHTD, *ctx.saved_tensors, **ctx.options)
        dk, dv = (x.unflatten(1, (ctx.num_kv_heads, -1)).float().sum(2).to(x.dtype) for x in (dk, dv))
        return dq, dk, dv, None, None, None, None
# endregion
