"""Reduce-scatters by an all-reduce of the whole.

law: tensor_parallel.functions.moves_no_byte_too_many
says: times the bytes
"""
# region solution summed_part
    return own_part(summed(x, group), dim, group).contiguous()
# endregion
