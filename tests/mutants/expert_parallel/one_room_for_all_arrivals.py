"""Receives every call's rows in the same memory: what a backward has saved is overwritten by the next call.

law: expert_parallel.layer.calls_are_independent
says: writes over
"""
        # region solution exchange_forward
        ctx.sent, ctx.received, ctx.group = list(sent), list(received), group
        rooms = AllToAllRows.__dict__.get("rooms")
        if rooms is None:
            rooms = AllToAllRows.rooms = {}
        key = (x.dtype, x.device, x.shape[1:])
        if key not in rooms or len(rooms[key]) < sum(received):
            rooms[key] = x.new_empty((sum(received), *x.shape[1:]))
        arrived = rooms[key][: sum(received)].detach()
        dist.all_to_all_single(arrived, x.contiguous(), ctx.received, ctx.sent, group=group)
        return arrived
        # endregion
