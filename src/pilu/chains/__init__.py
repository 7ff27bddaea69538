"""What all Langevin chains share, whatever they learn."""
