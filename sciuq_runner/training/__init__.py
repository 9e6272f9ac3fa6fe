"""How anything is trained: gradients, optimisers, and the loop with its progress, stops and checkpoints."""
