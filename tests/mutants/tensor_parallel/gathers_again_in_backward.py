"""Keeps a rank's own tokens and gathers them a second time in backward, which costs a quarter more.

law: tensor_parallel.sequence.same_bytes_as_all_reduces
says: bytes
"""
# region solution column_forward
    def forward(x: Tensor) -> Tensor:
        whole_x = all_gather_sequence(x, self.group) if self.sequence_parallel else copy_to_tensor_parallel(x, self.group)
        return F.linear(whole_x, self.weight, self.bias)

    if self.sequence_parallel and torch.is_grad_enabled():
        from torch.utils.checkpoint import checkpoint

        y = checkpoint(forward, x, use_reentrant=False, preserve_rng_state=False)
    else:
        y = forward(x)
    return gather_from_tensor_parallel(y, self.group) if self.gather_output else y
# endregion
