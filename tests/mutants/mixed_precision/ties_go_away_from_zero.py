"""Rounds ties away from zero, as at school.

law: mixed_precision.formats.rounds_to_nearest_even
says: round_to
"""
# region solution round_to
    wide = x.detach().double()
    exponent = (torch.frexp(wide).exponent - 1).clamp(min=2 - 2 ** (exponent_bits - 1))
    spacing = torch.pow(torch.tensor(2.0, dtype=torch.float64), (exponent - mantissa_bits).double())
    rounded = ((wide / spacing).abs() + 0.5).floor().copysign(wide) * spacing
    largest = (2 - 2.0**-mantissa_bits) * 2.0 ** (2 ** (exponent_bits - 1) - 1)
    rounded = torch.where(rounded.abs() > largest, torch.full_like(wide, math.inf).copysign(wide), rounded)
    return torch.where(wide.isfinite(), rounded, wide).to(x.dtype)
# endregion
