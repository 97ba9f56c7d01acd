"""Compares with the largest number before it rounds, so that numbers which would round to the largest are infinite.

law: mixed_precision.formats.overflows_to_infinity
says: inf
"""
# region solution round_to
    wide = x.detach().double()
    exponent = (torch.frexp(wide).exponent - 1).clamp(min=2 - 2 ** (exponent_bits - 1))
    spacing = torch.pow(torch.tensor(2.0, dtype=torch.float64), (exponent - mantissa_bits).double())
    rounded = (wide / spacing).round() * spacing
    largest = (2 - 2.0**-mantissa_bits) * 2.0 ** (2 ** (exponent_bits - 1) - 1)
    rounded = torch.where(wide.abs() > largest, torch.full_like(wide, math.inf).copysign(wide), rounded)
    return torch.where(wide.isfinite(), rounded, wide).to(x.dtype)
# endregion
