"""Arithmetic that runs on the host whatever the backend is."""
