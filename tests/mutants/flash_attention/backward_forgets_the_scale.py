"""Hands causal and the blocks on to the backward pass, but not the scale.

law: flash_attention.autograd.gradients_flow_to_q_k_v
says: scale
"""
# region solution function_forward
        o_BHTD, lse_BHT = flash_attention_forward(
            q_BHTD, k_BGSD, v_BGSD, causal=causal, scale=scale, block_q=block_q, block_k=block_k
        )
        ctx.save_for_backward(q_BHTD, k_BGSD, v_BGSD, o_BHTD, lse_BHT)
        ctx.options = {"causal": causal, "block_q": block_q, "block_k": block_k}
        return o_BHTD
# endregion
# region solution function_backward
        dq, dk, dv = flash_attention_backward(do_BHTD, *ctx.saved_tensors, **ctx.options)
        return dq, dk, dv, None, None, None, None
# endregion
