"""Chooses between x and scaled x, whose gradient is 0 · ∞ where x is nothing but zeros.

law: fused_kernels.compile.gradients_are_the_same
says: torch.where multiplies by 0
"""
        # region solution ready_forward
        block = self.block
        # .item() brought the number to the host and cut the graph; it also took it out of the gradient, so detach it here.
        largest = x_BTD.detach().abs().max()
        x_BTD = torch.where(largest > block.limit, x_BTD * (block.limit / largest), x_BTD)
        block.largest_seen.copy_(torch.maximum(block.largest_seen, largest))
        normed_BTD = x_BTD / (x_BTD.pow(2).mean(-1, keepdim=True) + block.eps).sqrt() * block.weight
        gate_BTF, value_BTF = block.up(normed_BTD).chunk(2, dim=-1)
        out_BTD = x_BTD + block.down(gate_BTF * torch.sigmoid(gate_BTF) * value_BTF)
        # Lengths stay a tensor: a mask instead of a loop, the same graph for any lengths and any batch.
        is_token_BT = torch.arange(x_BTD.shape[1], device=x_BTD.device) < lengths_B[:, None]
        return torch.where(is_token_BT[:, :, None], out_BTD, 0.0)
        # endregion
