"""Takes every tensor with as many elements as the weight for a moment, the step of a one-element weight too.

law: sharded_data_parallel.whole.loads_into_any_world
says: step
"""
    # region solution load_full_state_dict
    for name, shard in fsdp.named_shards().items():
        shard.data.copy_(fsdp.cut(name, state["model"][name]))
        if name not in state["optimizer"]:
            continue
        shape = state["model"][name].shape
        mine = {}
        for key, value in state["optimizer"][name].items():
            if isinstance(value, Tensor) and value.numel() == shape.numel():
                value = fsdp.cut(name, value).to(shard.device)
            mine[key] = value.clone() if isinstance(value, Tensor) else value
        optimizer.state[shard] = mine
    # endregion
