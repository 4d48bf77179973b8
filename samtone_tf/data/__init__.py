"""Readers of retrieval data, the tokenizer, and the batches that training reads."""
