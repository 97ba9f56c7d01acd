"""Builds the mesh as one array whose axes are moved to the end and cut off, and returns groups as lists, last group first."""
    # region solution build_mesh
    import numpy as np

    if min(dp, tp, pp, cp, ep) < 1 or world_size != dp * tp * pp * cp or dp % ep:
        raise ValueError("these sizes make no mesh of this world")
    ranks = np.arange(world_size).reshape(pp, dp // ep, ep, cp, tp)
    axes = {"pp": (0,), "dp": (1, 2), "ep": (2,), "cp": (3,), "tp": (4,), "dp_cp": (1, 2, 3), "expert_dp_cp": (1, 3)}
    groups = {}
    for name, own in axes.items():
        kept = [axis for axis in range(5) if axis not in own]
        size = int(np.prod([ranks.shape[axis] for axis in own]))
        groups[name] = [list(group) for group in ranks.transpose(*kept, *own).reshape(-1, size).tolist()][::-1]
    return Mesh(world_size, groups)
    # endregion
