"""What `scripts/bench.py` runs: a suite a file, each with `rows(quick)`. pairs.py measures for all."""
