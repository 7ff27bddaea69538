"""What the certificates of Langevin steps are worth on real data, measured independently."""
