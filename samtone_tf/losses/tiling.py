"""When a loss is taken in tiles of rows, and how many rows a tile has."""

# 64 MB as float32. The plain form needs about ten times that here, and no less time
# (benchmarks/loss_memory.py).
MOST_LOGITS = 2**24
"""Logits of one block, above which the loss is taken in tiles."""

TILE_SIZE = 128
"""Rows that are compared with all columns at once."""
