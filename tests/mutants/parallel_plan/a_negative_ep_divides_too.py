"""Looks whether ep is none, and not whether it is negative: -1 divides every dp.

law: parallel_plan.mesh.refuses_other_worlds
says: ValueError
"""
    # region solution build_mesh
    if min(dp, tp, pp, cp) < 1 or ep == 0 or world_size != tp * cp * dp * pp or dp % ep:
        raise ValueError(f"{world_size} ranks are not tp {tp} x cp {cp} x dp {dp} x pp {pp} with ep {ep} that divides dp")

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
