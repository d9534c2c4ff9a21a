"""Commands on a login node, by a real OpenSSH server on loopback."""

import contextlib
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hpc_board.errors import SchedulerError
from hpc_board.model.gpu import Login
from hpc_board.transport import CommandTimeout, Completed, ssh
from hpc_board.transport.ssh import Connection, SshHost
from hpc_board.transport.ssh_files import SshFiles
from hpc_board.transport.ssh_login import LoginRefused
from tests.conftest import short_folder
from tests.slurm.sshd import USER, SlowLink, Sshd, agent_with, new_key, running_master, skip_without_sshd
from tests.waiting import ended_writers

pytestmark = pytest.mark.slow

VARIABLES = {"SLURM_CONF": "/etc/slurm/lab.conf", "SBATCH_PARTITION": "debug", "LC_TIME": "de_DE.UTF-8"}
NOISE = "echo 'Welcome to login2'; echo 'a noisy host' >&2\n"


@pytest.fixture(scope="module")
def server() -> Iterator[Sshd]:
    skip_without_sshd()
    with short_folder() as folder, Sshd(folder / "d", VARIABLES) as running:
        yield running


def login(server: Sshd, **more: str) -> Login:
    return Login("127.0.0.1", more.pop("user", USER), server.port, **more)


@pytest.fixture(params=["own", "master"])
def host(server: Sshd, home: Path, request: pytest.FixtureRequest) -> Iterator[SshHost]:
    """The host by a login of the client's own, and through a master of OpenSSH."""
    connection = Connection(login(server))
    with contextlib.ExitStack() as stack:
        if request.param == "master":
            stack.enter_context(running_master(server, home / ".ssh"))
        yield SshHost(connection)
        connection.close()


def run(host: SshHost, *argv: str, timeout_seconds: float = 60, **options: str) -> Completed:
    return host.run(argv, timeout_seconds=timeout_seconds, **options)  # type: ignore[arg-type]


def refusal(server: Sshd, **more: str) -> SchedulerError:
    """The error with which a login ends."""
    connection = Connection(login(server, **more))
    with pytest.raises(SchedulerError) as refused:
        SshHost(connection).run(["true"], timeout_seconds=60)
    connection.close()
    return refused.value


def test_the_environment_is_an_allow_list_of_the_host_s_own(host: SshHost, server: Sshd) -> None:
    done = host.run(["env"], timeout_seconds=60, env={"SLURM_TIME_FORMAT": "%s"})
    seen = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert seen["SLURM_CONF"] == VARIABLES["SLURM_CONF"]
    assert (seen["LC_ALL"], seen["SLURM_TIME_FORMAT"], seen["HOME"]) == ("C.UTF-8", "%s", str(server.home))
    assert set(seen) <= {
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TZ", "LD_LIBRARY_PATH", "SLURM_CONF", "LC_ALL", "SLURM_TIME_FORMAT"
    }  # fmt: skip


@pytest.mark.usefixtures("home")
def test_the_path_is_that_of_a_login_shell(server: Sshd) -> None:
    tools = server.home / "tools"
    tools.mkdir()
    (tools / "sbatch-of-the-site").write_text("#!/bin/sh\necho here\n")
    (tools / "sbatch-of-the-site").chmod(0o755)
    with start_up_files(server, bash_profile=f"export PATH={tools}:$PATH\n"):
        connection = Connection(login(server))
        assert run(SshHost(connection), "sbatch-of-the-site").stdout == "here\n"
        connection.close()


class start_up_files:  # noqa: N801 - reads as a function does
    def __init__(self, server: Sshd, **texts: str) -> None:
        self._paths = {server.home / f".{name}": text for name, text in texts.items()}

    def __enter__(self) -> None:
        for path, text in self._paths.items():
            path.write_text(text)

    def __exit__(self, *_: object) -> None:
        for path in self._paths:
            path.unlink()


@pytest.mark.usefixtures("home")
def test_what_start_up_files_print_is_no_output(server: Sshd) -> None:
    with start_up_files(server, bashrc=NOISE, bash_profile=NOISE + "printf 'half a line'; set -x\n"):
        connection = Connection(login(server))
        host = SshHost(connection)
        assert run(host, "sh", "-c", "echo out; echo err >&2") == Completed(0, "out\n", "err\n")
        assert run(host, "printenv", "SLURM_CONF").stdout == f"{VARIABLES['SLURM_CONF']}\n"
        connection.close()


@pytest.mark.usefixtures("home")
def test_a_login_shell_that_ends_at_once_is_told(server: Sshd) -> None:
    with start_up_files(server, bashrc="echo 'This account is closed.'; exit 1\n"):
        error = refusal(server)
    assert "does not run commands: This account is closed." in error.message


@pytest.mark.usefixtures("home")
def test_a_login_shell_that_hangs_leaves_the_programs_of_a_plain_session(
    server: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "_ENVIRONMENT_SECONDS", 1.0)
    with start_up_files(server, bash_profile="exec sleep 600\n"):
        connection = Connection(login(server))
        host = SshHost(connection)
        assert run(host, "echo", "in").stdout == "in\n"
        with pytest.raises(SchedulerError, match=r"no-such is not in PATH on .*; its login shell did not answer"):
            run(host, "no-such")
        connection.close()


@pytest.mark.usefixtures("home")
def test_no_process_on_the_host_has_a_variable_among_its_arguments(server: Sshd, tmp_path: Path) -> None:
    """Every user of a login node can read the arguments of all processes there."""
    tools, seen = tmp_path / "tools", tmp_path / "seen"
    tools.mkdir()
    for name in ("env", "setsid", "timeout"):
        (tools / name).write_text(f'#!/bin/sh\necho {name} "$@" >> {seen}\nexec {shutil.which(name)} "$@"\n')
        (tools / name).chmod(0o755)
    with start_up_files(server, bashrc=f"export PATH={tools}:$PATH SLURM_JWT=a.secret.token\n"):
        connection = Connection(login(server))
        for stdin in ("", "the command's own\n"):
            done = run(SshHost(connection), "sh", "-c", "echo $SLURM_JWT; cat", stdin=stdin)
            assert done.stdout == f"a.secret.token\n{stdin}"
        connection.close()
    assert "setsid" in seen.read_text()
    assert "secret" not in seen.read_text()


@pytest.mark.parametrize("how", ["time", "connection"])
def test_a_command_whose_client_is_gone_is_killed_with_its_children(
    host: SshHost, server: Sshd, tmp_path: Path, how: str
) -> None:
    run(host, "true")
    fifo = tmp_path / "alive"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    script = f"sleep 600 > {fifo} & touch {tmp_path}/begun; sleep 600 > {fifo}"
    try:
        if how == "time":
            with pytest.raises(CommandTimeout, match="sh did not finish within 1"):
                run(host, "sh", "-c", script, timeout_seconds=1.5)
        else:
            dropper = threading.Thread(target=when((tmp_path / "begun").exists, server.drop))
            dropper.start()
            with pytest.raises(SchedulerError, match="was lost while sh ran"):
                run(host, "sh", "-c", script)
            dropper.join()
        assert (tmp_path / "begun").exists()
        assert ended_writers(reader), "a process that has the FIFO open for writing is left"
    finally:
        os.close(reader)
    assert run(host, "echo", "again").stdout == "again\n"


def when(condition: Callable[[], bool], act: Callable[[], None]) -> Callable[[], None]:
    def wait() -> None:
        deadline = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        act()

    return wait


@pytest.mark.parametrize("stream", ["", " >&2"])
def test_a_command_that_never_stops_printing_ends_in_its_time(host: SshHost, stream: str) -> None:
    run(host, "true")
    began = time.monotonic()
    with pytest.raises(CommandTimeout):
        run(host, "sh", "-c", f"yes{stream}", timeout_seconds=1)
    assert time.monotonic() - began < 9
    assert run(host, "echo", "again").stdout == "again\n"


def test_threads_share_one_connection(host: SshHost, server: Sshd) -> None:
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda number: run(host, "sh", "-c", f"sleep 0.1; echo {number}").stdout, range(12)))
    assert answers == [f"{number}\n" for number in range(12)]
    assert len(server.sessions()) == 1


@pytest.mark.parametrize("host", ["own"], indirect=True)
def test_a_dead_connection_is_made_anew_without_a_word(host: SshHost, server: Sshd) -> None:
    assert run(host, "echo", "1").stdout == "1\n"
    server.drop()
    assert run(host, "echo", "2").stdout == "2\n"


def test_a_session_that_opens_late_ends_nobody_else_s_command(server: Sshd, home: Path, tmp_path: Path) -> None:
    with SlowLink(server.port, delay_seconds=0) as link, ThreadPoolExecutor(1) as pool:
        (home / ".ssh" / "known_hosts").write_text(server.known_hosts_line.replace(str(server.port), str(link.port)))
        connection = Connection(Login("127.0.0.1", USER, link.port))
        host = SshHost(connection)
        assert run(host, "echo", "1").stdout == "1\n"
        script = f"touch {tmp_path}/begun; while [ ! -e {tmp_path}/over ]; do sleep 0.1; done; echo done"
        other = pool.submit(run, host, "sh", "-c", script)
        when((tmp_path / "begun").exists, link.frozen.set)()
        thaw = threading.Timer(2, link.frozen.clear)
        thaw.start()
        with contextlib.suppress(CommandTimeout, SchedulerError):
            run(host, "echo", "2", timeout_seconds=1)
        thaw.join()
        (tmp_path / "over").touch()
        assert other.result().stdout == "done\n"
        assert run(host, "echo", "3").stdout == "3\n"
        connection.close()


def test_a_link_that_breaks_anywhere_is_an_error_that_is_told(server: Sshd, home: Path) -> None:
    with SlowLink(server.port, delay_seconds=0) as link:
        (home / ".ssh" / "known_hosts").write_text(server.known_hosts_line.replace(str(server.port), str(link.port)))
        for more_bytes in range(100, 6000, 400):
            link.cut_after(10**9)
            connection = Connection(Login("127.0.0.1", USER, link.port))
            host, files = SshHost(connection), SshFiles(connection)
            run(host, "true")
            link.cut_after(more_bytes)
            with contextlib.suppress(SchedulerError):
                run(host, "head", "-c", "3000", "/dev/zero")
            with contextlib.suppress(OSError):
                files.read(home / ".ssh" / "known_hosts", 10_000)
            connection.close()
        assert link.cuts > 10


def test_an_unknown_host_key_is_never_accepted(server: Sshd, home: Path) -> None:
    known = home / ".ssh" / "known_hosts"
    known.write_text("")
    error = refusal(server)
    assert isinstance(error, LoginRefused)
    assert f"the host key of [127.0.0.1]:{server.port} is not known" in error.message
    assert "SHA256:" in error.message
    assert str(known) in error.hint
    assert f"`ssh -p {server.port} {USER}@127.0.0.1`" in error.hint
    assert known.read_text() == ""


def test_another_host_key_is_told_with_its_line(server: Sshd, home: Path, tmp_path: Path) -> None:
    other = " ".join(Path(f"{new_key(tmp_path / 'other')}.pub").read_text().split()[:2])
    known = home / ".ssh" / "known_hosts"
    known.write_text(f"# mine\n[127.0.0.1]:{server.port} {other}\n")
    error = refusal(server)
    assert isinstance(error, LoginRefused)
    assert f"line 2 of {known} has another one" in error.message
    assert "ssh-keygen -R" in error.hint


def test_a_login_that_is_refused_names_what_was_tried(
    server: Sshd, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", "/nowhere/agent")
    folder, garbage, key = (home / ".ssh" / name for name in ("folder", "garbage", "id_ed25519"))
    folder.mkdir()
    garbage.write_text("no key")
    key.unlink()
    new_key(key)
    (home / ".ssh" / "config").write_text("".join(f"IdentityFile {each}\n" for each in (folder, garbage, key)))
    error = refusal(server)
    assert isinstance(error, LoginRefused)
    for words in (
        f"{USER}@127.0.0.1 rejected the login: the agent at /nowhere/agent does not answer: No such file or directory",
        f"{folder} cannot be read: Is a directory",
        f"{garbage} is not a supported private key",
        f"{key}: refused",
    ):
        assert words in error.message


@pytest.mark.parametrize(
    ("option", "words", "hint"),
    [
        ("AuthenticationMethods publickey,publickey", "requires more than a key: publickey", "`ssh -fNM "),
        ("PubkeyAuthentication no", "the host does not accept keys, only", "logs in without a prompt"),
    ],
)
def test_a_host_that_a_key_does_not_open_is_told(home: Path, option: str, words: str, hint: str) -> None:
    with short_folder() as folder, Sshd(folder / "d", options=(option,)) as strict:
        strict.client_home(home)
        error = refusal(strict)
    assert words in error.message
    assert hint in error.hint


def test_a_key_with_a_passphrase_needs_an_agent(server: Sshd, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = home / ".ssh" / "id_ed25519"
    with agent_with(server.client_key) as agent:
        shutil.copy(f"{server.client_key}.pub", f"{key}.pub")
        os.system(f"ssh-keygen -q -p -N secret -f {key}")  # noqa: S605 - a key of the test's own
        error = refusal(server)
        assert f"{key} has a passphrase, but no agent has it" in error.message
        assert "ssh-add" in error.hint
        monkeypatch.setenv("SSH_AUTH_SOCK", agent)
        connection = Connection(login(server))
        assert run(SshHost(connection), "echo", "in").stdout == "in\n"
        connection.close()


def test_only_the_key_of_the_settings_is_offered(server: Sshd, home: Path, tmp_path: Path) -> None:
    assert "rejected the login" in refusal(server, key=str(new_key(tmp_path / "key"))).message
    connection = Connection(login(server, key=str(server.client_key)))
    (home / ".ssh" / "id_ed25519").unlink()
    assert run(SshHost(connection), "echo", "in").stdout == "in\n"
    connection.close()


@pytest.mark.usefixtures("home")
def test_a_host_that_cannot_be_reached_is_told() -> None:
    with pytest.raises(SchedulerError, match=r"127\.0\.0\.1 cannot be reached: Connection refused") as told:
        Connection(Login("127.0.0.1", USER, 1)).link()
    assert not isinstance(told.value, LoginRefused)
    assert f"`ssh -p 1 {USER}@127.0.0.1`" in told.value.hint


@pytest.mark.parametrize("name", ["a..b", 70 * "a"])
def test_a_name_that_no_host_can_have_is_told(home: Path, name: str) -> None:
    (home / ".ssh" / "config").write_text(f"Host far\n  HostName {name}\n")
    with pytest.raises(SchedulerError, match="far cannot be reached: invalid host name") as told:
        Connection(Login("far", USER)).link()
    assert "works; a VPN may be down" in told.value.hint


def test_a_host_that_cannot_be_reached_is_left_alone_for_a_while(home: Path) -> None:
    tries = home / "tries"
    connection = Connection(Login("127.0.0.1", USER, proxy_command=f"echo once >> {tries}"))
    errors = []
    for _ in range(3):
        with pytest.raises(SchedulerError) as told:
            connection.link()
        errors.append((told.value.message, told.value.hint))
    assert len(set(errors)) == 1
    assert tries.read_text() == "once\n"


def test_the_ssh_configuration_leads_through_a_jump_host(server: Sshd, home: Path) -> None:
    with short_folder() as folder, Sshd(folder / "jump") as jump:
        (home / ".ssh" / "known_hosts").write_text(f"far.site.org {server.host_key}\n" + jump.known_hosts_line)
        (home / ".ssh" / "more").write_text(
            f"Host far\n  HostName 127.0.0.1\n  Port {server.port}\n  User {USER}\n  HostKeyAlias far.site.org\n"
            "  ProxyJump gate\n"
        )
        (home / ".ssh" / "config").write_text(
            f"Include {home}/.ssh/more\nHost gate\n  HostName 127.0.0.1\n  Port {jump.port}\n  User {USER}\n"
            f"  IdentityFile {home}/jump_key\n"
        )
        connection = Connection(Login("far"))
        with pytest.raises(LoginRefused, match=r"far cannot be reached: .*Permission denied"):
            connection.link()
        shutil.copy(jump.client_key, home / "jump_key")
        connection = Connection(Login("far"))
        assert run(SshHost(connection), "printenv", "SLURM_CONF").stdout == f"{VARIABLES['SLURM_CONF']}\n"
        assert len(jump.sessions()) == 1
        connection.close()


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("beside the key", "ed25519"),
        ("CertificateFile", "ed25519"),
        ("agent", "ed25519"),
        ("agent alone", "ed25519"),
        ("agent alone", "rsa"),
    ],
)
def test_a_certificate_of_the_user_opens_the_account(
    home: Path, place: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, key = new_key(home / "authority"), new_key(home / "key", kind=kind)
    sign = ["ssh-keygen", "-q", "-s", str(authority), "-I", "ada", "-n", USER, "-V", "-1h:+1h", f"{key}.pub"]
    subprocess.run(sign, check=True, stderr=subprocess.DEVNULL)
    config = f"IdentityFile {key}\nIdentitiesOnly yes\n"
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(short_folder())
        host = stack.enter_context(Sshd(folder / "d", options=(f"TrustedUserCAKeys {authority}.pub",)))
        if place.startswith("agent"):
            # It takes the certificate beside the key with it.
            monkeypatch.setenv("SSH_AUTH_SOCK", stack.enter_context(agent_with(key)))
            key.unlink()
        if place == "agent alone":
            shutil.move(f"{key}.pub", home / "plain.pub")
            subprocess.run(["ssh-add", "-q", "-d", f"{home}/plain.pub"], check=True, stderr=subprocess.DEVNULL)
            config = ""
        if place == "CertificateFile":
            config += f"CertificateFile {shutil.move(f'{key}-cert.pub', home / 'of_the_day')}\n"
        (home / ".ssh" / "config").write_text(config)
        (home / ".ssh" / "known_hosts").write_text(host.known_hosts_line)
        connection = Connection(Login("127.0.0.1", USER, host.port))
        assert run(SshHost(connection), "echo", "in").stdout == "in\n"
        connection.close()


def test_a_running_master_serves_for_commands_and_files_without_a_login(server: Sshd, home: Path) -> None:
    (home / ".ssh" / "id_ed25519").unlink()
    with running_master(server, home / ".ssh") as process:
        sessions = server.sessions()
        connection = Connection(login(server))
        host, files = SshHost(connection), SshFiles(connection)
        assert run(host, "sh", "-c", "cat; echo err >&2; exit 3", stdin="in\n") == Completed(3, "in\n", "err\n")
        assert len(run(host, "head", "-c", "3000000", "/dev/zero").stdout) == 3_000_000
        files.write_folder(home / "runs" / "1", {"job.sh": os.urandom(300_000)})
        assert [entry.size for entry in files.entries(home / "runs" / "1")] == [300_000]
        assert server.sessions() == sessions
        connection.close()
        assert run(host, "echo", "again").stdout == "again\n"
        process.kill()
        process.wait()
        with pytest.raises(LoginRefused):
            run(host, "true")


@pytest.mark.parametrize("most", [1, 2])
def test_a_host_with_few_sessions_on_a_connection_gets_several_connections(home: Path, most: int) -> None:
    with short_folder() as folder, Sshd(folder / "d", options=(f"MaxSessions {most}",)) as limited:
        limited.client_home(home)
        connection = Connection(login(limited))
        host, files = SshHost(connection), SshFiles(connection)
        files.ensure(home / "far" / "file", b"in")
        with ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(lambda number: run(host, "echo", str(number)).stdout, range(12)))
        assert answers == [f"{number}\n" for number in range(12)]
        assert files.read(home / "far" / "file", 100) == b"in"
        assert len(limited.sessions()) <= 5
        connection.close()


def test_a_host_that_opens_no_session_is_told(home: Path) -> None:
    with short_folder() as folder, Sshd(folder / "d", options=("MaxSessions 0",)) as limited:
        limited.client_home(home)
        assert "does not open another session" in refusal(limited).message
