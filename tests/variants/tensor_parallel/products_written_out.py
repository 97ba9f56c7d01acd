"""No F.linear and no F.embedding: products with the transpose, rows by indexing; the loss has its gradient ready when forward ends."""
# region solution column_forward
    if self.sequence_parallel and not self.is_entered:
        x = all_gather_sequence(x, self.group, dim=1)
    elif not self.is_entered:
        x = copy_to_tensor_parallel(x, self.group)
    y = torch.matmul(x, self.weight.t())
    if self.bias is not None:
        y = y + self.bias
    if self.gather_output:
        y = gather_from_tensor_parallel(y, self.group)
    return y
# endregion
# region solution row_forward
    if not self.input_is_parallel:
        x = scatter_to_tensor_parallel(x, self.group)
    addends = torch.matmul(x, self.weight.t())
    bias = self.bias
    if self.sequence_parallel:
        y = reduce_scatter_sequence(addends, self.group, dim=1)
        bias = None if bias is None else copy_to_tensor_parallel(bias, self.group)
    else:
        y = reduce_from_tensor_parallel(addends, self.group)
    return y if bias is None else y + bias
# endregion
# region solution embedding_forward
    last_row = self.first_row + len(self.weight) - 1
    is_here = (tokens >= self.first_row) & (tokens <= last_row)
    row = tokens.clamp(self.first_row, last_row) - self.first_row
    x = torch.where(is_here.unsqueeze(-1), self.weight[row], torch.zeros((), dtype=self.weight.dtype, device=self.weight.device))
    if self.sequence_parallel:
        return reduce_scatter_sequence(x, self.group, dim=1)
    return reduce_from_tensor_parallel(x, self.group)
# endregion
# region solution cross_entropy_forward
    num_rows = logits.shape[-1]
    first_row = dist.get_rank(group) * num_rows
    scores = logits.to(torch.promote_types(logits.dtype, torch.float32), copy=True)
    is_padding = torch.arange(first_row, first_row + num_rows, device=logits.device) >= vocab_size
    scores.masked_fill_(is_padding, -torch.inf)
    largest = scores.amax(-1, keepdim=True).contiguous()
    dist.all_reduce(largest, dist.ReduceOp.MAX, group=group)
    scores -= largest

    counts = targets != ignore_index
    is_here = counts & (targets >= first_row) & (targets < first_row + num_rows)
    row = torch.where(is_here, targets - first_row, 0).unsqueeze(-1)
    target_score = torch.where(is_here, scores.gather(-1, row).squeeze(-1), 0).contiguous()
    dist.all_reduce(target_score, group=group)
    softmax = scores.exp_()
    denominator = softmax.sum(-1).contiguous()
    dist.all_reduce(denominator, group=group)

    share = counts.to(softmax.dtype) / counts.sum()
    softmax *= (share / denominator).unsqueeze(-1)
    softmax.scatter_add_(-1, row, -(share * is_here).unsqueeze(-1))
    ctx.save_for_backward(softmax)
    ctx.dtype = logits.dtype
    return torch.where(counts, denominator.log() - target_score, 0).sum() / counts.sum()
# endregion
# region solution cross_entropy_backward
    (d_logits,) = ctx.saved_tensors
    return (d_logits * gradient).to(ctx.dtype), None, None, None, None
# endregion
