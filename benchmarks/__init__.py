"""Benchmarks, one question per file. Ratios are taken within one run: the machine is shared and noisy."""
