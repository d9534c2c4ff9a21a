"""One submission's life: drafts, dispatch to a scheduler, job folders, reconciliation with the scheduler."""
