"""What pilu costs, as ratios to references timed in the same run; see docs/benchmarks.md."""
