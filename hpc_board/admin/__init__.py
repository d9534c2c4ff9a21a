"""Administration: detection of a cluster, probe jobs, diagnosis, export."""
