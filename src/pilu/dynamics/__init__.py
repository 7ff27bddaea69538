"""The chain: schedules of (steps, noise), Langevin steps and the noise that drives them."""
