"""What the chain's iterates and residuals are distributed as."""
