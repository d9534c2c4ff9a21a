"""Graces: for how long a run waits for news of its job before it ends without them."""

from datetime import timedelta

RESULT_GRACE = timedelta(seconds=60)
"""The time for a result to appear after the end of the job: network file systems are late."""

CANCELLED_GRACE = timedelta(seconds=5)
"""The time for a cancelled job's result to appear, if it had just written one."""

MISSING_GRACE = timedelta(minutes=5)
"""The time after which a job that the scheduler does not know counts as lost."""
