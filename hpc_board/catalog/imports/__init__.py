"""Tasks from the formats of other benchmarks: each problem of a user's own checkout becomes a task folder."""
