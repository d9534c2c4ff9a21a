"""The JSON of the parts of a run: its job and the remarks on its submission."""

from hpc_board.domain.moderation import REASON_CHARACTERS_MAX, Remark, Removal, Rerun
from hpc_board.domain.run import Run
from hpc_board.domain.submission import NOTE_CHARACTERS_MAX
from hpc_board.domain.usage import Usage
from hpc_board.model.text import one_line
from hpc_board.report.views import Moment, Seconds, View, moment_of


class JobView(View, frozen=True):
    """The job of a run."""

    cluster: str
    """the name of the cluster in the settings"""
    id: str | None
    """the scheduler's number of the job; in a job array that of the array and the run's index, `123_4`"""
    partition: str | None
    """the partition that it was sent to"""
    node: str | None
    """the node that it runs on"""

    @classmethod
    def of(cls, run: Run) -> "JobView":
        """Return the object of a run's job."""
        return cls(
            cluster=run.cluster,
            id=run.status.job_id or None,
            partition=run.partition or None,
            node=run.status.node or None,
        )


class NoteView(View, frozen=True):
    """A note on a submission."""

    text: str
    """the note"""
    by: str
    """its author"""
    at: Moment
    """its time"""

    @classmethod
    def of(cls, note: Remark) -> "NoteView":
        """Return the object of a note."""
        return cls(text=one_line(note.text, NOTE_CHARACTERS_MAX), by=one_line(note.by_user), at=moment_of(note.at))


class RerunView(View, frozen=True):
    """The origin of a submission that was sent again."""

    of_submission: int
    """the submission that it repeats"""
    by: str
    """the admin who sent it"""
    at: Moment
    """the time of that"""

    @classmethod
    def of(cls, rerun: Rerun) -> "RerunView":
        """Return the object of a rerun."""
        return cls(of_submission=rerun.of_submission, by=one_line(rerun.by_user), at=moment_of(rerun.at))


class RemovalView(View, frozen=True):
    """The removal of a submission from the standings."""

    by: str
    """the admin who removed it"""
    at: Moment
    """the time of that"""
    reason: str
    """the reason"""

    @classmethod
    def of(cls, removal: Removal) -> "RemovalView":
        """Return the object of a removal."""
        return cls(
            by=one_line(removal.by_user),
            at=moment_of(removal.at),
            reason=one_line(removal.reason, REASON_CHARACTERS_MAX),
        )


class RunUsageView(View, frozen=True):
    """The memory and the processors that a job used beside the amounts that it asked for; `null` where unknown."""

    memory_peak_bytes: int | None
    """the peak of its memory: that of its control group, else the sum of its processes, in which shared pages count
    several times"""
    memory_asked_bytes: int | None
    """the memory that it asked for"""
    cpu_seconds: Seconds | None
    """the processor time of all its processes"""
    elapsed_seconds: Seconds | None
    """the time in which it used that"""
    cpus_asked: int | None
    """the number of its CPUs"""
    advice: list[str]
    """remedies for amounts that are far from the need"""

    @classmethod
    def of(cls, usage: Usage) -> "RunUsageView":
        """Return the object of a use."""
        return cls(
            memory_peak_bytes=usage.memory_peak_bytes,
            memory_asked_bytes=usage.memory_asked_bytes,
            cpu_seconds=usage.cpu_seconds,
            elapsed_seconds=usage.elapsed_seconds,
            cpus_asked=usage.cpus_asked,
            advice=[advice for advice in (usage.memory_advice, usage.cpu_advice) if advice],
        )
