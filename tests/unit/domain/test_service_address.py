"""Addresses of services: what is one, and what is none."""

import pytest

from hpc_board.domain.service_address import SshAddress, service_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("ssh://login1/run/board.sock", SshAddress("login1", "/run/board.sock")),
        ("ssh://1004@login1:65535/a", SshAddress("login1", "/a", "1004", 65535)),
        ("ssh://ada@uni.org@login1.site.org:1/a", SshAddress("login1.site.org", "/a", "ada@uni.org", 1)),
        ("ssh://[fe80::1]:22/a", SshAddress("fe80::1", "/a", port=22)),
        (f"ssh://{63 * 'a'}.site.org./a", SshAddress(f"{63 * 'a'}.site.org.", "/a")),
        (
            "ssh://ada@login1:2222/run/board.sock?command=/opt/hpc-board/bin/hpc-board",
            SshAddress("login1", "/run/board.sock", "ada", 2222, "/opt/hpc-board/bin/hpc-board"),
        ),
    ],
)
def test_an_address_is_read_and_written(text: str, address: SshAddress) -> None:
    assert service_address(text) == address
    assert service_address(str(address)).host == address.host


@pytest.mark.parametrize(
    "text",
    [
        "http://login1:80",
        "munge://login1:7411",
        "ssh:///a",
        "ssh://:22/a",
        "ssh://login1:0/a",
        "ssh://login1:65536/a",
        "ssh://login1:٢٢/a",
        "ssh://@group@login1/a",
        "ssh://-x@login1/a",
        "ssh://login1/a\n",
        "ssh://root@a..b/a",
        f"ssh://{64 * 'a'}/a",
        f"ssh://site.{70 * 'a'}.org/a",
        "ssh://a../a",
        "ssh://a..b/tmp/x.sock",
        "ssh://login1",
        "ssh://login1/",
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
