"""Loads the weights and lets the optimizer begin anew.

law: sharded_data_parallel.whole.loads_into_any_world
says: load
"""
    # region solution load_full_state_dict
    for name, shard in fsdp.named_shards().items():
        shard.data.copy_(fsdp.cut(name, state["model"][name]))
        optimizer.state.pop(shard, None)
    # endregion
