"""Leaves the optimizer its moments where the checkpoint, from before the first step, has none.

law: sharded_data_parallel.whole.loads_into_any_world
says: checkpoint
"""
    # region solution load_full_state_dict
    for name, shard in fsdp.named_shards().items():
        shard.data.copy_(fsdp.cut(name, state["model"][name]))
        if name not in state["optimizer"]:
            continue
        shape = state["model"][name].shape
        mine = {}
        for key, value in state["optimizer"][name].items():
            if isinstance(value, Tensor) and value.shape == shape and key != "step":
                value = fsdp.cut(name, value).to(shard.device)
            mine[key] = value.clone() if isinstance(value, Tensor) else value
        optimizer.state[shard] = mine
    # endregion
