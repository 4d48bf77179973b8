"""Nearest-neighbour indexes over document embeddings: exact search, and ScaNN."""
