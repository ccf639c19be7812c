"""What OpenCL and CUDA have in common: plans, memory, operations; their drivers do the rest."""
