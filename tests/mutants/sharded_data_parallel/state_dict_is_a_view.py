"""Returns views of what trains on.

law: sharded_data_parallel.whole.is_what_one_process_has
says: full_state_dict
"""
# region solution full_state_dict
    is_keeper = dist.get_rank(fsdp.group) == 0
    shards, states = fsdp.named_shards(), optimizer_states(fsdp, optimizer)

    def collect(pieces: dict[str, Tensor], into: Callable[[str, Tensor], None]) -> None:
        for name, whole in fsdp.gather_whole(pieces):
            if is_keeper:
                into(name, whole.detach().cpu().clone())

    model: dict[str, Tensor] = {}
    collect({name: shard.detach() for name, shard in shards.items()}, model.__setitem__)
    whole_states: States = {name: {} for name in states}
    for key in sorted({key for state in states.values() for key in state}):
        holders = {name: state[key] for name, state in states.items() if key in state}
        cut = {name: value for name, value in holders.items() if is_cut(value, shards[name])}
        collect(cut, lambda name, whole, key=key: whole_states[name].__setitem__(key, whole))
        for name in holders.keys() - cut.keys():
            value = holders[name]
            whole_states[name][key] = value
    return {"model": model, "optimizer": whole_states} if is_keeper else {}
# endregion
