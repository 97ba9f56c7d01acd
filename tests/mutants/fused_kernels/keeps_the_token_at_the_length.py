"""Compares with <= where < is due: one token of padding stays.

law: fused_kernels.compile.computes_the_same
says: one token too many
"""
        # region solution ready_forward
        block = self.block
        largest = x_BTD.detach().abs().max()
        x_BTD = x_BTD * (block.limit / largest).clamp(max=1.0)
        block.largest_seen.copy_(torch.maximum(block.largest_seen, largest))
        normed_BTD = x_BTD / (x_BTD.pow(2).mean(-1, keepdim=True) + block.eps).sqrt() * block.weight
        gate_BTF, value_BTF = block.up(normed_BTD).chunk(2, dim=-1)
        out_BTD = x_BTD + block.down(gate_BTF * torch.sigmoid(gate_BTF) * value_BTF)
        is_token_BT = torch.arange(x_BTD.shape[1], device=x_BTD.device) <= lengths_B[:, None]
        return torch.where(is_token_BT[:, :, None], out_BTD, 0.0)
        # endregion
