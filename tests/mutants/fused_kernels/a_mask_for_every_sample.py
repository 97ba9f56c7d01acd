"""Masks sample by sample in a loop over the batch, which is unrolled into the graph.

law: fused_kernels.compile.grows_with_nothing
says: operations
"""
        # region solution ready_forward
        block = self.block
        # .item() brought the number to the host and cut the graph; it also took it out of the gradient, so detach it here.
        largest = x_BTD.detach().abs().max()
        # Both branches at once: limit / largest where that is below one, and one elsewhere (also where largest is 0).
        x_BTD = x_BTD * (block.limit / largest).clamp(max=1.0)
        block.largest_seen.copy_(torch.maximum(block.largest_seen, largest))
        normed_BTD = x_BTD / (x_BTD.pow(2).mean(-1, keepdim=True) + block.eps).sqrt() * block.weight
        gate_BTF, value_BTF = block.up(normed_BTD).chunk(2, dim=-1)
        out_BTD = x_BTD + block.down(gate_BTF * torch.sigmoid(gate_BTF) * value_BTF)
        place_T = torch.arange(x_BTD.shape[1], device=x_BTD.device)
        rows = [torch.where((place_T < lengths_B[b])[:, None], out_BTD[b], 0.0) for b in range(x_BTD.shape[0])]
        return torch.stack(rows)
        # endregion
