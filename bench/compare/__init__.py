"""What tools/perf-compare is made of: scenarios, how they are run, what comes of it."""
