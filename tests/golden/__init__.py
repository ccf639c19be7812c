"""Known answers: small inputs with the results they must give, worked out apart from the package.

`veles_*` carry the published test data of the Veles units and cases derived from their formulas, `reports_*`
turn public bug reports into numbers, `steps` holds training steps, `shapes` sizes to refuse or to reach.
`test_golden_data` proves all of them by the loops of `tests.reference`.

A linear convolution that knows its err_input is also a transposed convolution of its err_output.
"""
