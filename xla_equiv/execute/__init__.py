"""Training the variants of a suite in worker processes. Only this layer imports torch."""
