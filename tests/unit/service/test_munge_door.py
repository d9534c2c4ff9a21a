"""The door over TCP, with a real munged: who gets in, and what becomes of those who try without."""

import base64
import ctypes
import json
import os
import pwd
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hpc_board.domain.roles import Role
from hpc_board.domain.service_address import MungeAddress, MungeListener
from hpc_board.errors import BoardError, InputError, Refused, StorageError, WaitExpired
from hpc_board.service import wire
from hpc_board.service.client import RemoteBoard
from hpc_board.service.conversation import Bounds
from hpc_board.service.doors import ServiceError, frames, handshake
from hpc_board.service.doors import munge as door_module
from hpc_board.service.doors.munge import MungeDoor, MungeStream
from hpc_board.service.log import ServiceLog
from hpc_board.service.machine_pool import BLAMED_TURNS
from hpc_board.service.server import Service
from hpc_board.service.unauthenticated import CREDENTIALS_MAX, PENDING_MAX, PendingClients
from hpc_board.transport import munge
from hpc_board.transport.munge import MungeFailed, Trouble
from tests.munge import clock_offset, munged, new_key, skip_without_munge
from tests.networks import own_address
from tests.slurm.lab import free_ports
from tests.unit.recorded import KERNEL, SETTINGS, Recorded, recorded
from tests.unit.service.clients import OWNER, ROOT, acting_as, asking, refusal
from tests.values import requested
from tests.waiting import WAIT_SECONDS, awaited

pytestmark = pytest.mark.slow

UID = os.geteuid()


@pytest.fixture(scope="module")
def realm() -> Iterator[Path]:
    """A folder with the socket `a/m` of a munged, and its key."""
    skip_without_munge()
    with tempfile.TemporaryDirectory(prefix="hb-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with munged(folder / "a", new_key(folder / "key")):
            yield folder


class Served:
    """A service with a TCP port, its address for this machine, and its log."""

    def __init__(
        self, folder: Path, port: int, munge_socket: Path, log: list[dict[str, Any]], service: Service
    ) -> None:
        assert service._pending_clients is not None
        self.folder = folder
        self.stop = service.stop
        self.pending = service._pending_clients
        self.address = MungeAddress("127.0.0.1", port, OWNER, str(munge_socket))
        self.log = log

    @property
    def waiting(self) -> int:
        """The number of clients whose credential has arrived, and is not decoded yet."""
        return self.pending._decoders._calls.total()

    @property
    def refusals(self) -> list[dict[str, Any]]:
        return [line for line in self.log if line["event"] == "refused"]


@contextmanager
def served(board: Recorded, munge_socket: Path, bounds: Bounds | None = None, *, faults: int = 0) -> Iterator[Served]:
    (port,) = free_ports(1)
    listener = MungeListener("127.0.0.1", port, str(munge_socket))
    settings = msgspec.structs.replace(board.board.settings, munge=listener)
    lines: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="hb-") as name:
        Path(name).chmod(0o755)
        log = ServiceLog(lambda line: lines.append(json.loads(line)))
        service = Service(settings, Path(name) / "board.sock", log=log, bounds=bounds or Bounds())
        ready = threading.Event()
        thread = threading.Thread(target=service.run, args=(ready.set,))
        thread.start()
        try:
            assert ready.wait(60)
            yield Served(Path(name), port, munge_socket, lines, service)
        finally:
            service.stop()
            thread.join(60)
        assert len([line for line in lines if line["event"] == "fault"]) == faults, lines


@pytest.fixture
def board(tmp_path: Path) -> Recorded:
    made = recorded(tmp_path)
    made.settings.write_text(SETTINGS + "roles: {admins: [games], participants: [daemon, nobody]}\n")
    return made


@pytest.fixture
def door(board: Recorded, realm: Path) -> Iterator[Served]:
    with served(board, realm / "a" / "m") as running:
        yield running


class Tcp:
    """A client of the port that sends bytes of its choice."""

    def __init__(self, address: MungeAddress) -> None:
        self.address = address
        self.socket = socket.create_connection((address.host, address.port), timeout=30)
        self.file = self.socket.makefile("rb")
        self.nonce = ""

    def greeted(self) -> "Tcp":
        protocol, self.nonce = handshake.parsed_greeting(self.line())
        assert protocol == handshake.PROTOCOL
        return self

    def line(self) -> bytes:
        with suppress(ConnectionResetError):
            return self.file.readline().removesuffix(b"\n")
        return b""

    def answer(self, data: bytes) -> bytes:
        with suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(data)
        return self.line()

    def close(self) -> None:
        self.file.close()
        self.socket.close()


@contextmanager
def tcp(served: Served) -> Iterator[Tcp]:
    with closing(Tcp(served.address)) as client:
        yield client.greeted()


def credential(address: MungeAddress, payload: object, reader: int = UID) -> bytes:
    text = payload if isinstance(payload, str) else msgspec.json.encode(payload).decode()
    return munge.encode(text, reader, address.socket).encode() + b"\n"


def runs(address: MungeAddress) -> object:
    remote = RemoteBoard(address)
    with remote.session():
        return remote.runs.list()


# The user of a conversation


@ROOT
def test_the_user_is_the_account_that_munge_names_and_has_its_role(door: Served) -> None:
    for name, role in {"games": Role.ADMIN, "daemon": Role.PARTICIPANT, "sys": Role.NONE}.items():
        with acting_as(name):
            remote = RemoteBoard(door.address)
            with remote.session():
                assert (remote.user, remote.role) == (name, role)


@ROOT
def test_a_uid_without_a_name_on_the_services_machine_is_refused(door: Served) -> None:
    libc = ctypes.CDLL(None)
    # This thread alone, by the system call; Python's own function changes all threads.
    assert libc.syscall(117, ctypes.c_long(-1), ctypes.c_long(61001), ctypes.c_long(-1)) == 0
    try:
        error = refusal(lambda: runs(door.address))
    finally:
        libc.syscall(117, ctypes.c_long(-1), ctypes.c_long(0), ctypes.c_long(-1))
    assert isinstance(error, Refused)
    assert error.message == "this machine has no account with the number 61001."
    assert door.refusals[-1]["uid"] == 61001


def test_questions_of_every_size_are_answered(door: Served) -> None:
    remote = RemoteBoard(door.address)
    with remote.session():
        assert remote.tasks.catalog().tasks
        many = [remote.gpus.all() for _ in range(3)]
        too_many = refusal(lambda: remote.submissions.preview([requested(Path(__file__))] * 200))
    assert many[0] == many[2]
    assert too_many.exit_code == 2


# Messages to the client


def test_munge_that_is_not_installed_is_said(door: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(door.folder))
    error = refusal(lambda: runs(door.address))
    assert (error.exit_code, "munge is not installed on this machine" in error.message) == (2, True)
    assert "ssh://" in error.hint


def test_a_dead_munged_of_the_client_is_said(door: Served) -> None:
    dead = msgspec.structs.replace(door.address, socket="/nowhere/m")
    error = refusal(lambda: runs(dead))
    assert isinstance(error, ServiceError)
    assert error.message == "munge does not answer on this machine."
    assert "`?socket=PATH` at the end of the address" in error.hint


def test_a_dead_munged_of_the_service_is_said_and_logged(board: Recorded, realm: Path) -> None:
    with served(board, Path("/nowhere/m")) as door:
        alive = msgspec.structs.replace(door.address, socket=str(realm / "a" / "m"))
        error = refusal(lambda: runs(alive))
        assert "munge does not answer on the service's machine" in error.message
        assert "`serve.munge_socket` in the settings of the service" in error.hint
        assert (door.refusals[0]["reason"], door.refusals[0]["munge"]) == ("unavailable", "dead")


def test_a_machine_with_another_key_is_told_so(realm: Path, door: Served) -> None:
    with munged(realm / "other", new_key(realm / "other-key")) as other:
        error = refusal(lambda: runs(msgspec.structs.replace(door.address, socket=str(other))))
    assert isinstance(error, ServiceError)
    assert "different keys of munge" in error.message


@pytest.mark.parametrize(("seconds", "words"), [(3600, "from the future"), (-3600, "expired")])
def test_clocks_that_differ_are_named(realm: Path, door: Served, seconds: int, words: str) -> None:
    folder = realm / f"clock{seconds}"
    with munged(folder, realm / "key", clock_offset(realm, seconds)) as other:
        error = refusal(lambda: runs(msgspec.structs.replace(door.address, socket=str(other))))
    assert words in error.message
    assert "clocks" in error.hint


@ROOT
def test_a_port_of_another_account_is_told_apart_from_the_service(door: Served) -> None:
    other = msgspec.structs.replace(door.address, account="daemon")
    error = refusal(lambda: runs(other))
    assert (error.exit_code, "does not run as the account daemon" in error.message) == (2, True)
    assert "impostor" in error.hint


def test_an_account_that_is_not_there_is_said(door: Served) -> None:
    error = refusal(lambda: runs(msgspec.structs.replace(door.address, account="no-such-account")))
    assert (error.exit_code, "this machine has no account no-such-account" in error.message) == (2, True)


def test_a_port_at_which_no_program_listens_is_said(door: Served) -> None:
    (port,) = free_ports(1)
    error = refusal(lambda: runs(msgspec.structs.replace(door.address, port=port)))
    assert "Connection refused" in error.message
    assert error.exit_code == 3


def test_a_service_that_is_there_no_more_is_said(board: Recorded, realm: Path) -> None:
    with served(board, realm / "a" / "m") as door:
        remote = RemoteBoard(door.address)
        remote.runs.list()
    assert "Connection refused" in refusal(remote.runs.list).message


@contextmanager
def program(*talk: bytes | None) -> Iterator[MungeAddress]:
    """A program at a port that reads whatever comes, and answers each piece with the next of `talk`, then closes.

    The first of them is sent unasked; None is silence to the end.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def answer() -> None:
        with suppress(OSError):
            connected, _ = listener.accept()
            with connected:
                for index, text in enumerate(talk):
                    if index:
                        connected.recv(65536)
                    if text is None:
                        over.wait(60)
                        return
                    connected.sendall(text)

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield MungeAddress("127.0.0.1", int(listener.getsockname()[1]), OWNER)
    finally:
        over.set()
        listener.close()
        thread.join(60)


GREETING = handshake.greeting("00" * 32)


@pytest.mark.parametrize(
    "talk",
    [(b"SSH-2.0-OpenSSH_9.6\r\n",), (b"x" * 4096,), (b"hpc-board munge x y\n",), (b"\xff\xfe\n",)],
)
def test_a_port_of_another_program_is_said(talk: tuple[bytes, ...]) -> None:
    with program(*talk) as address:
        error = refusal(lambda: runs(address))
    assert "no service of hpc-board" in error.message
    assert "serve.munge" in error.hint


def test_a_connection_that_is_reset_was_cut() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as mine:
        theirs, _ = listener.accept()
        # A close that sends a reset, as one does that leaves bytes unread.
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        theirs.close()
        stream = MungeStream(
            mine, MungeAddress("127.0.0.1", 1, OWNER), frames.Sealing(b"k" * 32), frames.Opening(b"k" * 32)
        )
        for use in (stream.receive, partial(stream.send, b"a question")):
            with pytest.raises(ConnectionResetError, match=r"^the connection was cut$"):
                use()


@pytest.mark.parametrize("talk", [(None,), (GREETING, None)])
def test_a_service_that_is_silent_is_said(
    realm: Path, monkeypatch: pytest.MonkeyPatch, talk: tuple[bytes | None, ...]
) -> None:
    monkeypatch.setattr(door_module, "_STEP_SECONDS", 0.5)
    with program(*talk) as address:
        error = refusal(lambda: runs(msgspec.structs.replace(address, socket=str(realm / "a" / "m"))))
    assert "the program at this port did not answer within 0.5 s." in error.message
    assert "may be busy" in error.hint


@pytest.mark.parametrize("name", ["a..b", 70 * "a"])
def test_a_name_that_no_host_can_have_is_said(name: str) -> None:
    error = refusal(lambda: runs(MungeAddress(name, 1, OWNER)))
    assert "the host's name is no valid one" in error.message
    assert "serve.munge" in error.hint
    pending = PendingClients(MungeListener(name, 1), lambda *_, **__: None, 1)
    with pytest.raises(StorageError, match="the host's name is no valid one"):
        pending.listening()


def test_a_service_that_is_busy_is_asked_again(door: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    introduced, tries = MungeDoor._introduce, iter((handshake.BUSY, handshake.BUSY))

    def busy_at_first(of: MungeDoor, *args: Any) -> MungeStream:
        if next(tries, None):
            raise door_module._Busy
        return introduced(of, *args)

    monkeypatch.setattr(MungeDoor, "_introduce", busy_at_first)
    assert runs(door.address) == ()
    assert next(tries, None) is None


def test_a_service_that_stays_busy_is_said(realm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "_BUSY_SECONDS", 0)
    with program(GREETING, b"refused busy\n") as address:
        error = refusal(lambda: runs(msgspec.structs.replace(address, socket=str(realm / "a" / "m"))))
    assert "too many programs are at this port" in error.message
    assert "a program floods the port" in error.hint


def test_another_handshake_is_said() -> None:
    with program(b"hpc-board munge 99 abc\n") as address:
        error = refusal(lambda: runs(address))
    assert (error.exit_code, "do not know the same handshake" in error.message) == (2, True)


@pytest.mark.parametrize(
    ("reason", "kind", "words"),
    [
        (Trouble.REPLAYED, ServiceError, "used before"),
        (Trouble.EXPIRED, ServiceError, "expired"),
        (Trouble.REWOUND, ServiceError, "future"),
        (Trouble.INVALID, ServiceError, "different keys"),
        (Trouble.UNAUTHORIZED, InputError, f"does not run as the account {OWNER}"),
        (handshake.UNFIT, ServiceError, "for this connection"),
        (handshake.UNAVAILABLE, ServiceError, "service's machine"),
        ("\x1b[31mred", ServiceError, "has refused the credential."),
    ],
)
def test_each_refusal_has_a_sentence_of_the_clients_own(
    realm: Path, reason: str, kind: type[BoardError], words: str
) -> None:
    with program(GREETING, b"refused " + reason.encode() + b"\n") as address:
        error = refusal(lambda: runs(msgspec.structs.replace(address, socket=str(realm / "a" / "m"))))
    assert type(error) is kind
    assert words in error.message
    assert error.hint
    assert "\x1b" not in error.message


@pytest.mark.parametrize(
    ("talk", "words"),
    [
        ((GREETING,), "closed before the service knew who asks"),
        ((b"",), "closed before the service knew who asks"),
        ((GREETING, b"accepted\n"), "the connection was cut"),
        ((GREETING, b"accepted\n" + b"\0\0\0\x20" + b"x" * 32), "could not read the credential"),
        ((GREETING, b"accepted\n" + b"\xff" * 400), "could not read the credential"),
        ((GREETING, b"accepted\n", b'{"protocol":1,"version":"1","user":"root","role":"admin"}\n'), "could not read"),
    ],
)
def test_a_program_without_the_key_can_answer_no_question(realm: Path, talk: tuple[bytes, ...], words: str) -> None:
    with program(*talk) as address:
        error = refusal(lambda: runs(msgspec.structs.replace(address, socket=str(realm / "a" / "m"))))
    assert isinstance(error, ServiceError)
    assert words in error.message


# In between


class Between:
    """A machine between client and service, which passes on what `change` makes of each piece.

    `change` is given the direction (True: to the service), the number of bytes before the piece, and the piece.
    """

    def __init__(self, target: MungeAddress, change: Callable[[bool, int, bytes], bytes]) -> None:
        self._change = change
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = msgspec.structs.replace(target, port=int(self._listener.getsockname()[1]))
        self._target = target
        self._ends: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                service = socket.create_connection((self._target.host, self._target.port))
                self._ends += [client, service]
                for to_service, source, sink in ((True, client, service), (False, service, client)):
                    thread = threading.Thread(target=self._carry, args=(to_service, source, sink))
                    self._threads.append(thread)
                    thread.start()

    def _carry(self, to_service: bool, source: socket.socket, sink: socket.socket) -> None:
        count = 0
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(self._change(to_service, count, data))
                count += len(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for end in (self._listener, *self._ends):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(60)
        for end in (self._listener, *self._ends):
            end.close()


@contextmanager
def between(door: Served, change: Callable[[bool, int, bytes], bytes]) -> Iterator[MungeAddress]:
    with closing(Between(door.address, change)) as machine:
        yield machine.address


def test_a_machine_in_between_that_changes_nothing_is_not_noticed(door: Served) -> None:
    with between(door, lambda _to, _count, data: data) as address:
        assert runs(address) == ()


def test_no_text_is_readable_in_between(door: Served) -> None:
    seen = bytearray()

    def look(_to: bool, _count: int, data: bytes) -> bytes:
        seen.extend(data)
        return data

    with between(door, look) as address:
        remote = RemoteBoard(address)
        with remote.session():
            assert remote.tasks.catalog().tasks
    assert b"hpc-board munge 1" in seen
    for text in (b"vectoradd", b"protocol", b"tasks.catalog"):
        assert text not in seen


def test_a_question_that_is_altered_is_not_answered_and_the_log_names_the_uid(door: Served) -> None:
    def alter(to_service: bool, count: int, data: bytes) -> bytes:
        # The credential is the first piece; the frames come behind it.
        return bytes([*data[:-1], data[-1] ^ 1]) if to_service and count else data

    with between(door, alter) as address:
        assert isinstance(refusal(lambda: runs(address)), ServiceError)
    awaited(lambda: door.refusals)
    assert door.refusals[0]["uid"] == UID
    assert "is not the next one that was sent" in door.refusals[0]["reason"]


def test_an_answer_that_is_altered_is_not_believed(door: Served) -> None:
    def alter(to_service: bool, count: int, data: bytes) -> bytes:
        # The greeting and the welcome are short; the catalog comes late.
        return data if to_service or count < 1000 else bytes([*data[:-1], data[-1] ^ 1])

    with between(door, alter) as address:
        remote = RemoteBoard(address)
        with remote.session():
            error = refusal(lambda: [remote.tasks.catalog() for _ in range(50)])
    assert isinstance(error, ServiceError)
    assert "altered on its way" in error.message


def test_an_answer_that_is_cut_is_no_end(door: Served) -> None:
    """A cut that the network sees as a proper end of the connection."""
    with ExitStack() as stack:
        machine: list[Between] = []

        def cut(to_service: bool, count: int, data: bytes) -> bytes:
            if not to_service and count > 1000:
                for end in machine[0]._ends:
                    end.shutdown(socket.SHUT_WR)
                return b""
            return data

        machine.append(stack.enter_context(closing(Between(door.address, cut))))
        remote = RemoteBoard(machine[0].address)
        with remote.session():
            error = refusal(lambda: [remote.tasks.catalog() for _ in range(50)])
    assert isinstance(error, ServiceError)
    assert "cut" in error.message


def test_a_recorded_session_cannot_be_played_again(door: Served) -> None:
    sent: list[bytes] = []

    def record(to_service: bool, _count: int, data: bytes) -> bytes:
        if to_service:
            sent.append(data)
        return data

    with between(door, record) as address:
        runs(address)
    with tcp(door) as thief:
        assert thief.answer(b"".join(sent[:1])) == b"refused replayed"
    with tcp(door) as thief:
        # The bytes after the credential must not come before the service's word.
        assert thief.answer(b"".join(sent)) in (b"refused unfit", b"")


# Attacks on the handshake


def test_a_credential_that_a_thief_sends_first_is_of_no_use(door: Served) -> None:
    with tcp(door) as victim, tcp(door) as thief:
        stolen = credential(door.address, handshake.new_payload(victim.nonce))
        assert thief.answer(stolen) == b"refused unfit"
        assert victim.answer(stolen) == b"refused replayed"
    assert door.refusals[0]["uid"] == UID


@ROOT
def test_a_credential_of_one_account_opens_no_connection_of_another(door: Served) -> None:
    with tcp(door) as ada, tcp(door) as bob:
        with acting_as("daemon"):
            stolen = credential(door.address, handshake.new_payload(ada.nonce))
        assert bob.answer(stolen) == b"refused unfit"
    assert door.refusals[0]["uid"] == pwd.getpwnam("daemon").pw_uid


def test_a_credential_for_another_account_opens_nothing(door: Served) -> None:
    with tcp(door) as client:
        foreign = credential(door.address, handshake.new_payload(client.nonce), reader=61001)
        assert client.answer(foreign) == b"refused unauthorized"


@pytest.mark.parametrize(
    "payload",
    [
        "",
        "x",
        "[]",
        "{}",
        '{"protocol":1,"nonce":"NONCE","key":"AAAA"}',
        '{"protocol":2,"nonce":"NONCE","key":"KEY"}',
        '{"protocol":1,"nonce":"NONCE","key":"KEY","uid":0}',
        "[" * 2000,
        "\n\nUID: 0\n",
        "STATUS: 0\nUID: 1\n\n{}",
    ],
)
def test_a_credential_that_was_made_for_something_else_opens_nothing(door: Served, payload: str) -> None:
    with tcp(door) as client:
        key = base64.b64encode(bytes(32)).decode()
        made = credential(door.address, payload.replace("NONCE", client.nonce).replace("KEY", key))
        assert client.answer(made) == b"refused unfit"


def test_a_credential_that_every_account_could_read_opens_nothing(door: Served) -> None:
    with tcp(door) as client:
        text = msgspec.json.encode(handshake.new_payload(client.nonce)).decode()
        _, made = munge._run(["munge", f"--socket={door.address.socket}"], text)
        assert client.answer(made.strip().encode() + b"\n") == b"refused unfit"


def test_an_altered_credential_opens_nothing(door: Served) -> None:
    for place in (20, 60, -5):
        with tcp(door) as client:
            made = bytearray(credential(door.address, handshake.new_payload(client.nonce)))
            made[place] = ord("A") if made[place] != ord("A") else ord("B")
            assert client.answer(bytes(made)) == b"refused invalid"


@pytest.mark.parametrize(
    "data",
    [b"\n", b"GET / HTTP/1.1\r\n\r\n", b"MUNGE:\n", b"MUNGE:" + b"A" * 4000 + b":\n", b"MUNGE:\xff\n", b"x" * 5000],
)
def test_a_line_that_is_no_credential_is_refused(door: Served, data: bytes) -> None:
    with tcp(door) as client:
        assert client.answer(data) in (b"refused unfit", b"refused invalid", b"")
    assert runs(door.address) == ()


def test_a_credential_with_a_payload_of_a_megabyte_is_refused_unread(door: Served) -> None:
    with tcp(door) as client:
        made = credential(door.address, "x" * 1_000_000)
        assert len(made) > 1_000_000
        assert client.answer(made) in (b"refused unfit", b"")
    with tcp(door) as client:
        text = "x" * 1_000_000
        _, small = munge._run(["munge", "--zip=zlib", f"--restrict-uid={UID}", f"--socket={door.address.socket}"], text)
        assert len(small) < handshake.CREDENTIAL_BYTES_MAX
        assert client.answer(small.strip().encode() + b"\n") == b"refused unfit"
    assert runs(door.address) == ()


def test_a_slow_handshake_is_ended(board: Recorded, realm: Path) -> None:
    with served(board, realm / "a" / "m", Bounds(hello_seconds=0.3)) as door, ExitStack() as stack:
        for begin in (b"", b"MUNGE:"):
            client = stack.enter_context(tcp(door))
            assert client.answer(begin) == b""


def test_a_frame_of_four_gigabytes_ends_the_connection_and_the_log_names_the_uid(door: Served) -> None:
    with tcp(door) as client:
        made = credential(door.address, handshake.new_payload(client.nonce))
        assert client.answer(made) == b"accepted"
        assert client.answer(b"\xff\xff\xff\xff" + b"x" * 1000) == b""
    awaited(lambda: door.refusals)
    assert (door.refusals[0]["uid"], "length" in door.refusals[0]["reason"]) == (UID, True)
    assert runs(door.address) == ()


def test_a_line_that_no_client_sends_is_answered_in_frames(door: Served) -> None:
    stream = door_module.MungeDoor(door.address).open(30)
    with closing(stream):
        stream.send(b"GET / HTTP/1.1\r\n\r\n")
        answer = msgspec.json.decode(stream.receive(), type=wire.Reply)
        assert answer.error is not None
        assert "is no Hello" in answer.error.message
        assert stream.receive() == b""


def test_a_thousand_strangers_keep_no_client_out(door: Served) -> None:
    known = RemoteBoard(door.address)
    with ExitStack() as stack, known.session():
        known.runs.list()
        strangers = [stack.enter_context(closing(Tcp(door.address))) for _ in range(1000)]
        assert known.runs.list() == ()
        assert runs(door.address) == ()
        # Those who have waited for the longest time have been let go.
        waiting = 0
        for stranger in strangers:
            stranger.socket.settimeout(30)
            waiting += stranger.line() != b"" and _is_open(stranger)
        assert waiting <= PENDING_MAX


def _is_open(stranger: Tcp) -> bool:
    stranger.socket.setblocking(False)
    try:
        stranger.socket.recv(1)
    except BlockingIOError:
        return True
    except ConnectionResetError:
        pass
    return False


def test_the_stranger_that_makes_room_for_another_is_told_that_the_service_is_busy(door: Served) -> None:
    with tcp(door) as oldest, ExitStack() as stack:
        for _ in range(PENDING_MAX):
            stack.enter_context(tcp(door))
        assert oldest.line() == b"refused busy"
        assert oldest.line() == b""


class Decoders:
    """Calls of unmunge that begin, and then wait until they are let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun = threading.Semaphore(0)
        self.go_on = threading.Event()
        self._decode = munge.decode
        monkeypatch.setattr(munge, "decode", self._late)

    def _late(self, credential: str, socket: str) -> munge.Decoded:
        self.begun.release()
        assert self.go_on.wait(WAIT_SECONDS)
        return self._decode(credential, socket)


@pytest.fixture
def decoders(door: Served, monkeypatch: pytest.MonkeyPatch) -> Iterator[Decoders]:
    del door  # it ends after the calls
    made = Decoders(monkeypatch)
    yield made
    made.go_on.set()


def rubbish() -> bytes:
    """A line with the form of a credential, of which munge alone can tell that it is none."""
    return b"MUNGE:" + base64.b64encode(os.urandom(240)) + b":\n"


def test_a_client_whose_credential_has_arrived_keeps_its_place(door: Served, decoders: Decoders) -> None:
    with tcp(door) as client, ExitStack() as stack:
        client.socket.sendall(credential(door.address, handshake.new_payload(client.nonce)))
        assert decoders.begun.acquire(timeout=WAIT_SECONDS)
        for _ in range(PENDING_MAX + 10):
            stack.enter_context(tcp(door))
        decoders.go_on.set()
        assert client.line() == b"accepted"


def test_more_credentials_than_may_wait_are_told_that_the_service_is_busy(door: Served, decoders: Decoders) -> None:
    with ExitStack() as stack:
        # Half of the places are left to other machines.
        for _ in range(CREDENTIALS_MAX // 2):
            stack.enter_context(tcp(door)).socket.sendall(rubbish())
        awaited(lambda: door.waiting == CREDENTIALS_MAX // 2)
        with tcp(door) as client:
            assert client.answer(rubbish()) == b"refused busy"
        decoders.go_on.set()
    assert runs(door.address) == ()


def test_a_client_that_has_gone_costs_no_call_of_munge(door: Served, decoders: Decoders) -> None:
    with ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(tcp(door)).socket.sendall(rubbish())
            assert decoders.begun.acquire(timeout=WAIT_SECONDS)
        for count in range(20):
            with tcp(door) as hasty:
                hasty.socket.sendall(rubbish())
                awaited(lambda count=count: door.waiting == 5 + count)  # type: ignore[misc]
        # The service has read all ends of connections before this answer.
        with asking(door.folder / "board.sock"):
            decoders.go_on.set()
        awaited(lambda: door.waiting == 0)
    assert not decoders.begun.acquire(blocking=False)


@pytest.mark.parametrize(
    "line",
    [
        b"MUNGE:" + b"A" * 302 + b":",
        b"MUNGE:" + b"A" * 299 + b"!:",
        b"MUNGE:" + b"A" * 200 + b":",
        b"MUNGE:" + b"A" * 304,
        b"MUNGE:" + b"A" * 4092 + b":",
        b"munge:" + b"A" * 304 + b":",
        b"MUNGE:" + b"\xff" * 304 + b":",
    ],
)
def test_a_line_without_the_form_of_a_credential_costs_no_call_of_munge(
    door: Served, decoders: Decoders, line: bytes
) -> None:
    with tcp(door) as client:
        assert client.answer(line + b"\n") == b"refused unfit"
    assert not decoders.begun.acquire(blocking=False)


def test_a_machine_has_blame_for_what_is_refused_alone(door: Served) -> None:
    pool = door.pending._decoders
    assert runs(door.address) == ()
    assert pool._clocks == {"loopback": 1}
    with tcp(door) as client:
        assert client.answer(b"MUNGE:\n") == b"refused unfit"
    assert pool._clocks == {"loopback": BLAMED_TURNS}
    with tcp(door) as client:
        assert client.answer(rubbish()) == b"refused invalid"
    assert pool._clocks == {"loopback": 2 * BLAMED_TURNS}


_FLOOD = """
import base64, os, select, socket, sys, time
host, port = sys.argv[1], int(sys.argv[2])
live, count, began = [], 0, time.monotonic()
while True:
    time.sleep(max(0.0002, began + count / 1500 - time.monotonic()))
    flood = socket.socket()
    flood.setblocking(False)
    flood.bind((f"127.{count // 250 % 250}.1.{count % 250 + 1}", 0))
    flood.connect_ex((host, port))
    select.select([], [flood], [], 0.05)
    try:
        flood.send(b"MUNGE:" + base64.b64encode(os.urandom(240)) + b":\\n")
    except OSError:
        pass
    live.append(flood)
    count += 1
    if count == 1000:
        print("flooded", flush=True)
    if len(live) > 700:
        for each in live[:350]:
            each.close()
        del live[:350]
"""


@contextmanager
def flooded(door: Served) -> Iterator[None]:
    """Send credentials that are none, 1,500 a second, from many loopback addresses."""
    words = [sys.executable, "-c", _FLOOD, door.address.host, str(door.address.port)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as flood:
        try:
            assert flood.stdout is not None
            assert flood.stdout.readline() == "flooded\n"
            yield
            assert flood.poll() is None
        finally:
            flood.kill()


def test_a_flood_of_rubbish_keeps_no_client_of_another_machine_waiting(
    door: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = partial(socket.create_connection, source_address=(own_address(), 0))
    monkeypatch.setattr(door_module, "_BUSY_SECONDS", 0)
    with flooded(door), monkeypatch.context() as patched:
        patched.setattr(socket, "create_connection", connect)
        for _ in range(5):
            assert runs(door.address) == ()


@pytest.mark.quiet
def test_a_flood_of_rubbish_keeps_no_client_of_the_same_machine_out(door: Served) -> None:
    with flooded(door):
        for _ in range(3):
            assert runs(door.address) == ()


def test_strangers_who_send_rubbish_fill_neither_the_log_nor_the_service(door: Served) -> None:
    for _ in range(200):
        with closing(Tcp(door.address)) as client:
            client.answer(b"MUNGE:rubbish:\n")
    assert runs(door.address) == ()
    assert len(door.refusals) < 100


def test_connections_of_one_user_are_counted_at_both_doors_together(board: Recorded, realm: Path) -> None:
    with served(board, realm / "a" / "m", Bounds(connections_per_user=2)) as door, ExitStack() as stack:
        for place in (door.folder / "board.sock", door.address):
            remote = RemoteBoard(place)
            stack.enter_context(remote.session())
            remote.runs.list()
        error = refusal(lambda: runs(door.address))
    assert "too many connections" in error.message


def test_a_fault_in_the_handshake_is_logged_and_the_next_client_let_in(
    board: Recorded, realm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def faulty(*_: object) -> None:
        raise ValueError("a fault")

    with served(board, realm / "a" / "m", faults=1) as door:
        with monkeypatch.context() as patched:
            patched.setattr(munge, "decode", faulty)
            assert "closed before the service knew who asks" in refusal(lambda: runs(door.address)).message
        assert runs(door.address) == ()
        assert "ValueError: a fault" in next(line["traceback"] for line in door.log if line["event"] == "fault")


# Life


def test_a_port_that_is_taken_is_said(door: Served, tmp_path: Path) -> None:
    other = recorded(tmp_path / "other")
    listener = MungeListener("127.0.0.1", door.address.port)
    service = Service(msgspec.structs.replace(other.board.settings, munge=listener), door.folder / "other.sock")
    with pytest.raises(StorageError, match="Address already in use"):
        service.run()
    assert not (door.folder / "other.sock").exists()


def test_a_client_waits_through_the_port_and_is_told_of_the_services_end(board: Recorded, realm: Path) -> None:
    with served(board, realm / "a" / "m") as door:
        remote = RemoteBoard(door.address)
        slow = board.folder / "slow.py"
        slow.write_text(f"{KERNEL}\nimport time\n\ntime.sleep(600)\n")
        with remote.session():
            (run,) = remote.submissions.submit([requested(slow)])
            waiting = remote.runs.wait([run.id])
            next(waiting)
            assert isinstance(refusal(lambda: list(remote.runs.wait([run.id], timeout_seconds=0.2))), WaitExpired)
            threading.Timer(0.2, door.stop).start()
            error = refusal(lambda: list(waiting))
        assert isinstance(error, ServiceError)
        assert f"`hpc-board watch {run.id}` waits for them again" in error.hint
    board.board.runs.cancel(run.id)


def test_connections_that_are_idle_are_closed_and_the_client_does_not_notice(board: Recorded, realm: Path) -> None:
    with served(board, realm / "a" / "m", Bounds(idle_seconds=0.2)) as door:
        remote = RemoteBoard(door.address)
        with remote.session():
            for _ in range(3):
                assert remote.runs.list() == ()
                (line,) = remote._connection._idle
                awaited(lambda line=line: not line.is_open())  # type: ignore[misc]


def test_munge_says_what_is_wrong_with_a_credential(realm: Path) -> None:
    place = str(realm / "a" / "m")
    made = munge.encode("a secret", UID, place)
    assert munge.decode(made, place) == munge.Decoded(UID, UID, "a secret")
    with pytest.raises(MungeFailed) as again:
        munge.decode(made, place)
    assert again.value.trouble is Trouble.REPLAYED


def test_frames_of_a_session_are_under_keys_that_need_the_payload() -> None:
    one, other = handshake.new_payload("a"), handshake.new_payload("a")
    assert handshake.frame_keys(one) != handshake.frame_keys(other)
    assert len(one.key) == frames.KEY_BYTES


def test_the_board_is_the_same_through_the_socket_and_the_port(door: Served) -> None:
    with asking(door.folder / "board.sock") as near:
        far = RemoteBoard(door.address)
        with far.session():
            assert far.gpus.all() == near.gpus.all()
            assert far.tasks.get("narrow") == near.tasks.get("narrow")
