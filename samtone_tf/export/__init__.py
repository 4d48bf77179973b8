"""Trained models as SavedModels: writing them, and using them from Python."""
