"""From results on disk to a page for people; reads JSON and numbers, and runs no model."""
