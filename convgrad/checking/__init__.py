"""The check of a device: small cases of every family of kernels, with answers worked out on the host.

`command` is `convgrad check`. It has `convgrad.backends.verdict` start `child` in a process of its own, since
a runtime may abort or hang.
"""
