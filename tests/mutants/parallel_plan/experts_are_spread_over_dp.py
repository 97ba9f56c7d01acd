"""Takes every (dp / ep)-th rank of dp as an expert group, and not neighbours.

law: parallel_plan.mesh.experts_lie_within_dp
says: neighbours
"""
    # region solution build_mesh
    sizes = {"dp": dp, "tp": tp, "pp": pp, "cp": cp, "ep": ep}
    for axis, size in sizes.items():
        if size < 1:
            raise ValueError(f"{axis} must be at least 1, not {size}")
    if world_size != tp * cp * dp * pp:
        raise ValueError(f"tp x cp x dp x pp = {tp * cp * dp * pp} ranks are not the {world_size} of the world")
    if dp % ep:
        raise ValueError(f"ep = {ep} does not divide dp = {dp}: experts are spread over the data-parallel ranks")

    def coordinates(rank: int) -> dict[str, int]:
        place = {}
        for digit, size in (("tp", tp), ("cp", cp), ("outer_dp", dp // ep), ("ep", ep), ("pp", pp)):
            rank, place[digit] = divmod(rank, size)
        return place

    own_digits = {
        "tp": {"tp"},
        "cp": {"cp"},
        "dp": {"ep", "outer_dp"},
        "pp": {"pp"},
        "ep": {"ep"},
        "dp_cp": {"cp", "ep", "outer_dp"},
        "expert_dp_cp": {"cp", "outer_dp"},
    }
    groups = {}
    for axis, own in own_digits.items():
        members: dict[tuple[int, ...], list[int]] = {}
        for rank in range(world_size):  # in ascending order, which is the order of the coordinates
            shared = tuple(position for digit, position in coordinates(rank).items() if digit not in own)
            members.setdefault(shared, []).append(rank)
        groups[axis] = tuple(tuple(ranks) for ranks in members.values())
    return Mesh(world_size, groups)
    # endregion
