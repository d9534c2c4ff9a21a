"""A real browser without a window, driven through a pipe by the DevTools protocol; no library is needed for that."""

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chromium-headless-shell")

# The protocol's pipe has to be the descriptors 3 and 4. An end may have such a number already, so both move up first.
_LAUNCHER = """
import os, sys
commands, answers = (os.dup(int(number)) for number in sys.argv[1:3])
high = [os.dup2(descriptor, 100 + index) for index, descriptor in enumerate((commands, answers))]
for index, descriptor in enumerate(high):
    os.dup2(descriptor, 3 + index)
os.execv(sys.argv[3], sys.argv[3:])
"""


def browser_program() -> str | None:
    """The browser of this machine; None where it has none that these tests know."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


class Page:
    """One tab, and what happened in it: events in the order in which they came."""

    def __init__(self, commands: IO[bytes], answers: IO[bytes]) -> None:
        self._commands, self._answers = commands, answers
        self._numbers = 0
        self._session = ""
        self.events: list[dict[str, Any]] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The browser's answer to a command."""
        self._numbers += 1
        number = self._numbers
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._commands.write(json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != number:
            pass
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def _next(self) -> dict[str, Any]:
        data = bytearray()
        while (byte := self._answers.read(1)) != b"\0":
            assert byte, "the browser has ended"
            data += byte
        message: dict[str, Any] = json.loads(data)
        if "method" in message:
            self.events.append(message)
        return message

    def open(self, place: Path | str, *, scripts: bool = True, width: int = 1280, dark: bool = False) -> None:
        """Load a file or an address and wait until that is done."""
        self.events.clear()
        self.ask("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.ask("Page.navigate", url=place if isinstance(place, str) else place.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._next()

    def value(self, expression: str) -> Any:
        """Return the value of a JavaScript expression."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """Press and release a key: "Tab", "Enter"."""
        code = {"Tab": 9, "Enter": 13}[key]
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **text)

    def click(self, selector: str) -> None:
        """Click into the middle of the first element that the selector finds."""
        element = f"document.querySelector({json.dumps(selector)})"
        self.value(f"{element}.scrollIntoView({{block: 'center'}})")
        box = self.value(
            f"(({{x, y, width, height}}) => [x + width / 2, y + height / 2])({element}.getBoundingClientRect())"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def requests(self) -> list[str]:
        """The addresses that were asked for since the page was opened."""
        return [
            event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"
        ]

    def complaints(self) -> list[str]:
        """Return the console's lines since the page was opened: errors, warnings, refusals of the page's policy."""
        complaints = {"Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled"}
        return [json.dumps(event["params"]) for event in self.events if event["method"] in complaints]

    def picture(self, file: Path, *, whole: bool = False) -> None:
        """Write what is seen as PNG."""
        answer = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(answer["data"]))

    def printed(self) -> bytes:
        """The page as PDF."""
        return base64.b64decode(self.ask("Page.printToPDF")["data"])


@contextmanager
def browsing(folder: Path) -> Iterator[Page]:
    """A browser with one tab, whose profile is in the empty `folder`."""
    program = browser_program()
    assert program is not None
    commands_in, commands_out = os.pipe()
    answers_in, answers_out = os.pipe()
    argv = [
        *(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
        *(
            "--disable-background-networking",
            "--hide-scrollbars",
            f"--user-data-dir={folder}",
            "--remote-debugging-pipe",
        ),
    ]
    launcher = [sys.executable, "-c", _LAUNCHER, str(commands_in), str(answers_out), *argv]
    quiet = subprocess.DEVNULL
    with (
        os.fdopen(commands_out, "wb", buffering=0) as commands,
        os.fdopen(answers_in, "rb") as answers,
        subprocess.Popen(
            launcher,
            pass_fds=(commands_in, answers_out),
            stdin=quiet,
            stdout=quiet,
            stderr=quiet,
            env={**os.environ, "HOME": str(folder)},
        ) as process,
    ):
        os.close(commands_in)
        os.close(answers_out)
        try:
            yield Page(commands, answers)
        finally:
            process.terminate()
