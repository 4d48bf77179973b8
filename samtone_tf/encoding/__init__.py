"""Encoding corpora of any size: texts → folders of vectors, resumable, on one machine or many."""
