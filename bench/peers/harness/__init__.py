"""Data, clocks, the two workloads, and what is made of their figures."""
