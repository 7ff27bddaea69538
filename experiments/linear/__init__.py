"""The paper's linear experiments: depth and MNIST, on one engine."""
