"""Units: layers that are set up once and run many times, alone in a user's loop or linked to a net.

A file holds a family, forward beside backward. Units wire arrays to a backend's operations; they hold no
mathematics and name no backend.
"""
