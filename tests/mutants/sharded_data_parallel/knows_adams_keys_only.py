"""Collects exp_avg, exp_avg_sq and step, and nothing of other optimizers.

law: sharded_data_parallel.whole.is_what_one_process_has
says: momentum_buffer
"""
    # region solution full_state_dict
    is_keeper = dist.get_rank(fsdp.group) == 0
    shards, states = fsdp.named_shards(), optimizer_states(fsdp, optimizer)

    def collect(pieces: dict[str, Tensor], into: Callable[[str, Tensor], None]) -> None:
        # All ranks gather, one keeps: a unit at a time, so that nobody's device needs room for the model.
        for name, whole in fsdp.gather_whole(pieces):
            if is_keeper:
                into(name, whole.detach().cpu().clone())

    model: dict[str, Tensor] = {}
    collect({name: shard.detach() for name, shard in shards.items()}, model.__setitem__)
    whole_states: States = {name: {} for name in states}
    for key in ("exp_avg", "exp_avg_sq", "step"):
        holders = {name: state[key] for name, state in states.items() if key in state}
        cut = {name: value for name, value in holders.items() if is_cut(value, shards[name])}
        collect(cut, lambda name, whole, key=key: whole_states[name].__setitem__(key, whole))
        for name in holders.keys() - cut.keys():
            value = holders[name]
            whole_states[name][key] = value.detach().cpu().clone() if isinstance(value, Tensor) else value
    return {"model": model, "optimizer": whole_states} if is_keeper else {}
    # endregion
