"""Labelled images to learn from, by name or from a folder."""
