"""Public cases of the laws of `mfu_report`. What each law means stands in tests/laws/mfu_report/."""
