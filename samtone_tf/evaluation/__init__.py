"""Judging retrievers: runs, measures, and an index beside exact search."""
