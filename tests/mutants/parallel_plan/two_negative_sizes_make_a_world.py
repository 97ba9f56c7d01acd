"""Looks at the product only: two negative sizes, or an ep below one, pass.

law: parallel_plan.mesh.refuses_other_worlds
says: ValueError
"""
    # region solution build_mesh
    if world_size != tp * cp * dp * pp:
        raise ValueError(f"tp x cp x dp x pp = {tp * cp * dp * pp} ranks are not the {world_size} of the world")
    if ep == 0 or dp % ep:
        raise ValueError(f"ep = {ep} does not divide dp = {dp}: experts are spread over the data-parallel ranks")

    def coordinates(rank: int) -> dict[str, int]:
        place = {}
        for digit, size in (("tp", tp), ("cp", cp), ("ep", ep), ("outer_dp", dp // ep), ("pp", pp)):
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
        for rank in range(world_size):
            shared = tuple(position for digit, position in coordinates(rank).items() if digit not in own)
            members.setdefault(shared, []).append(rank)
        groups[axis] = tuple(tuple(ranks) for ranks in members.values())
    return Mesh(world_size, groups)
    # endregion
