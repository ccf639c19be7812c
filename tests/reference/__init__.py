"""Judges of the test-suite: every operation written as loops over its definition, in float64, for reading.

Nothing here comes from the package, not even a size: what is worked out twice can be compared.
"""
