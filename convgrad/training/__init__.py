"""Training of nets made of units: data sets, loaders, the workflow, its decisions and snapshots, reports."""
