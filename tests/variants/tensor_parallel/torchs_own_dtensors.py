"""Torch's own DTensor behind a thin adapter: placements say what is cut, and torch finds out what must be sent, forward and backward.

The layers keep plain parameters; a product of DTensors stands in their forward, where the tokens are whole.

policy: library-tensor-parallelism
"""
# region solution column_forward
    import importlib

    if self.is_entered:
        y = F.linear(x, self.weight, self.bias)
    elif self.sequence_parallel:
        y = F.linear(all_gather_sequence(x, self.group), self.weight, self.bias)
    else:
        tensor = importlib.import_module("torch.distributed.tensor")
        group = dist.group.WORLD if self.group is None else self.group
        mesh = tensor.DeviceMesh.from_group(group, x.device.type)
        rows = [tensor.Shard(0)]
        whole_x = tensor.DTensor.from_local(x, mesh, [tensor.Replicate()], run_check=False)
        weight = tensor.DTensor.from_local(self.weight, mesh, rows, run_check=False)
        bias = None if self.bias is None else tensor.DTensor.from_local(self.bias, mesh, rows, run_check=False)
        y = F.linear(whole_x, weight, bias).to_local()
    return gather_from_tensor_parallel(y, self.group) if self.gather_output else y
# endregion
# region solution row_forward
    import importlib

    part = x if self.input_is_parallel else scatter_to_tensor_parallel(x, self.group)
    if self.sequence_parallel:
        y = reduce_scatter_sequence(F.linear(part, self.weight), self.group)
        return y if self.bias is None else y + copy_to_tensor_parallel(self.bias, self.group)
    tensor = importlib.import_module("torch.distributed.tensor")
    group = dist.group.WORLD if self.group is None else self.group
    mesh = tensor.DeviceMesh.from_group(group, x.device.type)
    columns = tensor.DTensor.from_local(part, mesh, [tensor.Shard(part.dim() - 1)], run_check=False)
    weight = tensor.DTensor.from_local(self.weight, mesh, [tensor.Shard(1)], run_check=False)
    y = F.linear(columns, weight).redistribute(mesh, [tensor.Replicate()]).to_local()
    return y if self.bias is None else y + self.bias
# endregion
