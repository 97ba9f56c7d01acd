"""Gathers the parts of the gradient, all of which it has, and cuts out its own again.

law: tensor_parallel.functions.moves_no_byte_too_many
says: bytes
"""
# region solution gather_backward
    mine = own_part(gradient, -1, ctx.group)
    return own_part(gathered(mine, -1, ctx.group), -1, ctx.group), None
# endregion
