"""Near copies among the files of different users on a task."""

from hpc_board.domain.near_copies import FILES_OF_USER_MAX, NearCopy, fingerprints, near_copies
from hpc_board.model.task import Task, Template, language_of
from hpc_board.store import Store


def copies_of(task: Task, store: Store, share: float) -> tuple[NearCopy, ...]:
    """Return the near copies among the ranked files on a task, without the code that the task itself gives."""
    files = {
        file: fingerprints(code, language_of(file.file_name) or task.language)
        for file, code in store.submissions.newest_files(task.name, FILES_OF_USER_MAX)
    }
    return near_copies(files, _own_fingerprints(task), share)


def _own_fingerprints(task: Task) -> frozenset[int]:
    """Return the fingerprints of a task's files, templates and milestones."""
    texts = [(Template(name).language, text) for name, text in task.templates.items()]
    named = [
        *((file.name, file.text or "") for file in task.files),
        *((each.file_name, each.text) for each in task.milestones),
    ]
    texts += [(language_of(name) or task.language, text) for name, text in named]
    return frozenset().union(*(fingerprints(text.encode(errors="replace"), language) for language, text in texts))
