"""Lays the world out as an array of five axes, and moves those of a group to the end; layers are handed out one by one."""
    # region solution build_mesh
    import numpy

    if min(dp, tp, pp, cp, ep) < 1:
        raise ValueError("every axis has at least one rank")
    if dp * tp * pp * cp != world_size or dp % ep != 0:
        raise ValueError(f"these axes don't make a world of {world_size} ranks with experts on dp")
    ranks = numpy.arange(world_size).reshape(pp, dp // ep, ep, cp, tp)
    axes = {"pp": [0], "dp": [1, 2], "ep": [2], "cp": [3], "tp": [4], "dp_cp": [1, 2, 3], "expert_dp_cp": [1, 3]}
    groups = {}
    for name, own in axes.items():
        others = [axis for axis in range(5) if axis not in own]
        size = 1
        for axis in own:
            size *= ranks.shape[axis]
        rows = ranks.transpose(*others, *own).reshape(-1, size)
        groups[name] = tuple(tuple(row) for row in reversed(rows.tolist()))
    return Mesh(world_size, groups)
    # endregion
    # region solution stages
    p, M, v = plan.pp, plan.num_micro_batches, plan.chunks
    if p == 1:
        return (Stage(num_layers=model.num_layers, has_embedding=True, has_head=True, num_in_flight=1.0),)
    layers = [model.num_layers // p] * p
    for place in [*range(1, p - 1), 0][: model.num_layers % p]:
        layers[place] += 1
    warm_up = [2 * (p - 1 - rank) + (v - 1) * p + 1 if v > 1 else p - rank for rank in range(p)]
    all_stages = [
        Stage(layers[rank], has_embedding=rank == 0, has_head=rank == p - 1, num_in_flight=min(warm_up[rank], M * v) / v)
        for rank in range(p)
    ]
    return (all_stages[0], *all_stages[1:-1][:1], all_stages[-1])
    # endregion
    # region solution rank_parameters
    own_layers, is_dense = stage.num_layers / plan.tp, model.num_experts == 1
    table = 0
    if stage.has_embedding:
        table += model.embedding_parameters
    if stage.has_head and not (stage.has_embedding and model.tied):
        table += model.head_parameters
    experts = own_layers * model.expert_parameters * (1 if is_dense else model.num_experts / plan.ep)
    shared = own_layers * model.shared_parameters + table / plan.tp
    return (shared + experts, 0) if is_dense else (shared, experts)
    # endregion
