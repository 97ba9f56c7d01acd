"""Falls back to fp32's peak.

law: mfu_report.utilisation.refuses_a_missing_peak
says: ValueError
"""
# region solution peak_flops_per_s
    return hardware.peak_flops_per_s.get(run.precision, hardware.peak_flops_per_s["fp32"])
# endregion
