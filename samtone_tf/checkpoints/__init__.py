"""Published weights, in and out: Hugging Face, KerasHub, T5's own files, sentence-transformers."""
