"""Calls a submission that defines a function of the reference's name, in place of custom_kernel(data)."""

import json
from pathlib import Path
from typing import Any

import submission

FACTS = json.loads(Path(__file__).with_name("import.json").read_text(encoding="utf-8"))

if hasattr(submission, "custom_kernel"):
    custom_kernel = submission.custom_kernel
else:
    _kernel = getattr(submission, FACTS["reference"])

    def custom_kernel(data: Any) -> Any:
        """Return the submission's answer."""
        return _kernel(**data) if isinstance(data, dict) else _kernel(*data)
