"""Addresses of services: what is one, and what is none."""

import pytest

from hpc_board.domain.service_address import (
    MungeAddress,
    MungeListener,
    SshAddress,
    munge_listener,
    service_address,
)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("munge://login1:7411", MungeAddress("login1", 7411)),
        ("munge://games@login1.site.org:1", MungeAddress("login1.site.org", 1, "games")),
        ("munge://1004@login1:65535", MungeAddress("login1", 65535, "1004")),
        ("munge://ada@uni.org@login1:7411", MungeAddress("login1", 7411, "ada@uni.org")),
        ("munge://[fe80::1]:7411?socket=/run/m.sock", MungeAddress("fe80::1", 7411, socket="/run/m.sock")),
        (f"munge://{63 * 'a'}.site.org.:1", MungeAddress(f"{63 * 'a'}.site.org.", 1)),
        ("ssh://login1/run/board.sock", SshAddress("login1", "/run/board.sock")),
        (
            "ssh://ada@login1:2222/run/board.sock?command=/opt/hpc-board/bin/hpc-board",
            SshAddress("login1", "/run/board.sock", "ada", 2222, "/opt/hpc-board/bin/hpc-board"),
        ),
    ],
)
def test_an_address_is_read_and_written(text: str, address: MungeAddress | SshAddress) -> None:
    assert service_address(text) == address
    assert service_address(str(address)).host == address.host


@pytest.mark.parametrize(
    "text",
    [
        "http://login1:80",
        "munge://login1",
        "munge://:7411",
        "munge://login1:0",
        "munge://login1:65536",
        "munge://login1:٧٤١١",
        "munge://login1:7411/path",
        "munge://login1:7411?socket=relative",
        "munge://login1:7411?socket=/a&x=1",
        "munge://@group@login1:7411",
        "munge://-x@login1:7411",
        "munge://-oProxyCommand=x:7411",
        "munge://login1:7411\n",
        "munge://root@a..b:7411",
        f"munge://{64 * 'a'}:7411",
        f"munge://site.{70 * 'a'}.org:7411",
        "munge://a..:7411",
        "ssh://a..b/tmp/x.sock",
        "ssh://login1",
        "ssh://login1/",
        "ssh://login1:99999/a",
        "ssh://-oProxyCommand=x/a",
        "ssh://login1/a b",
        "ssh://login1/a;reboot",
        "ssh://login1/$(reboot)",
        "ssh://login1/a'b",
        "ssh://login1/a!b",
        "ssh://login1/run/b.sock?command=hpc-board",
        "ssh://login1/run/b.sock?command=/bin/sh -c x",
        "ssh://login1/run/b.sock?socket=/x",
    ],
)
def test_a_text_that_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        service_address(text)


def test_a_port_to_listen_at_is_read() -> None:
    assert munge_listener("login1:7411", "") == MungeListener("login1", 7411)
    assert str(munge_listener("[::]:7411", "/m")) == "[::]:7411"
    for text in ("7411", "login1", "login1:x", "login1:0", "munge://login1:7411", "a b:1", "a..b:7411"):
        with pytest.raises(ValueError, match="expected"):
            munge_listener(text, "")
