"""Contrastive losses on embeddings: one number per pair, in nats."""
