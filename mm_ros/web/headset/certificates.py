"""Make certificates for the headset page over Wi-Fi with the program `openssl`: one for an own certificate authority
(CA) and one for the server, which the CA signs.

The private keys stay in the user's folder with mode 0600. The CA may sign only for names and addresses of local
networks. A device that trusts the CA refuses certificates for other addresses, even if the CA's key was stolen.
"""

from __future__ import annotations

import ipaddress
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mm_ros.base.errors import MmRosError
from mm_ros.base.files import config_folder
from mm_ros.web.access import write_private

# New certificates of the headset page are valid for this number of days. Apple's devices refuse certificates that are
# valid for more than 825 days, and browsers refuse certificates of public authorities that are valid for more than 398
# days.
DAYS = 397
RENEW_DAYS = 30
BACKDATED_S = 86_400  # New certificates are valid from one day ago on, because a headset's clock may be slow.
LOCAL_NETWORKS = (
    "127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10",
)  # fmt: skip
VIRTUAL = r"\d+: (lo|docker|br-|veth|virbr|lxc|cni|podman)"  # names of network interfaces that reach no other machine
MOST_NAMES = 24
FILES = ("ca.crt", "ca.key", "leaf.crt", "leaf.key", "token")


def folder() -> Path:
    return config_folder("headset", "MM_ROS_HEADSET")


@dataclass(frozen=True)
class Certificates:
    authority: Path
    leaf: Path
    key: Path


def forget() -> list[str]:
    """Delete certificates, private keys and token, and return the names of the deleted files."""
    gone = []
    for name in FILES:
        with suppress(FileNotFoundError):
            (folder() / name).unlink()
            gone.append(name)
    return gone


def host_names() -> list[str]:
    """Return the names by which other machines in a local network reach this machine."""
    own = re.sub(r"[^a-z0-9-]", "", socket.gethostname().lower().partition(".")[0])
    return ["localhost", *([f"{own}.local"] if own else [])]


def addresses() -> list[str]:
    """Return the IPv4 addresses of this machine in local networks, without the loopback address."""
    found = set()
    with suppress(OSError):
        found |= {str(info[4][0]) for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    with suppress(OSError, subprocess.SubprocessError):
        text = subprocess.run(
            ["ip", "-4", "-o", "addr"], capture_output=True, text=True, timeout=5, stdin=subprocess.DEVNULL
        ).stdout
        lines = [line for line in text.splitlines() if not re.match(VIRTUAL, line)]
        found = set(re.findall(r"inet (\d+\.\d+\.\d+\.\d+)", "\n".join(lines))) or found
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("10.255.255.255", 9))  # `connect` sends no packet, but selects the default route
        found.add(probe.getsockname()[0])
    return sorted(a for a in found if not a.startswith("127.") and is_local(a))


def is_local(text: str) -> bool:
    """Return whether an IP address is in a local network, so that the certificate authority may sign for it."""
    address = ipaddress.ip_address(text)
    return any(address in ipaddress.ip_network(network) for network in LOCAL_NETWORKS)


def certificates() -> Certificates:
    """Return the certificates of the headset page, and make missing ones. Certificates are renewed 30 days
    before they expire, or when this machine has a new address."""
    here = folder()
    kept = Certificates(here / "ca.crt", here / "leaf.crt", here / "leaf.key")
    wanted = {*host_names(), "127.0.0.1", *addresses()}
    has_authority = (here / "ca.key").is_file() and _lasts(kept.authority)
    if not has_authority:
        _make_authority(here)
    if not has_authority or not kept.key.is_file() or not _lasts(kept.leaf) or not wanted <= names_of(kept.leaf):
        # The certificate also contains former addresses, so that it stays valid after a return to a former network.
        before = sorted(names_of(kept.leaf) - wanted)[: MOST_NAMES - len(wanted)] if kept.leaf.is_file() else []
        _make_leaf(here, sorted({*wanted, *before}))
    for secret in (here / "ca.key", kept.key):
        secret.chmod(0o600)
    return kept


def names_of(certificate: Path) -> set[str]:
    text = _openssl("x509", "-in", str(certificate), "-noout", "-ext", "subjectAltName")
    return set(re.findall(r"(?:DNS|IP Address):([^,\s]+)", text))


def ends(certificate: Path) -> str:
    """Return the date on which the certificate file `certificate` expires, as openssl prints it."""
    return _openssl("x509", "-in", str(certificate), "-noout", "-enddate").strip().removeprefix("notAfter=")


def _lasts(certificate: Path) -> bool:
    if not certificate.is_file():
        return False
    with suppress(MmRosError):
        _openssl("x509", "-in", str(certificate), "-noout", "-checkend", str(RENEW_DAYS * 86_400))
        return True
    return False


def _make_authority(here: Path) -> None:
    permitted = ["permitted;DNS:localhost", "permitted;DNS:local"]
    for network in LOCAL_NETWORKS:
        net = ipaddress.ip_network(network)
        permitted.append(f"permitted;IP:{net.network_address}/{net.netmask}")
    # Without entries for IPv6 and mail addresses, the certificate authority (CA) could sign for all names of these
    # kinds.
    permitted += ["permitted;IP:::1/ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "excluded;email:."]
    extensions = [
        "basicConstraints=critical,CA:TRUE,pathlen:0", "keyUsage=critical,keyCertSign,cRLSign",
        "subjectKeyIdentifier=hash", f"nameConstraints=critical,{','.join(permitted)}",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as work:
        key, crt = Path(work) / "key", Path(work) / "crt"
        _new_key(key)
        _sign(Path(work), ["-key", str(key)], crt, f"mm_ros on {host_names()[-1]}", extensions)
        write_private(here / "ca.key", key.read_bytes())
        write_private(here / "ca.crt", crt.read_bytes())


def _make_leaf(here: Path, names: list[str]) -> None:
    kinds = [f"{'IP' if re.fullmatch(r'[0-9.]+', name) else 'DNS'}:{name}" for name in names]
    extensions = [
        "basicConstraints=critical,CA:FALSE", "keyUsage=critical,digitalSignature", "extendedKeyUsage=serverAuth",
        "subjectKeyIdentifier=hash", "authorityKeyIdentifier=keyid", f"subjectAltName={','.join(kinds)}",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as work:
        key, crt = Path(work) / "key", Path(work) / "crt"
        _new_key(key)
        by = ["-CA", str(here / "ca.crt"), "-CAkey", str(here / "ca.key")]
        _sign(Path(work), ["-key", str(key)], crt, f"mm_ros headset page on {host_names()[-1]}", extensions, by)
        write_private(here / "leaf.key", key.read_bytes())
        write_private(here / "leaf.crt", crt.read_bytes() + (here / "ca.crt").read_bytes())


def _new_key(path: Path) -> None:
    # The key file is first created with mode 0600, because openssl keeps the mode of an existing file.
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(path))


def _sign(
    work: Path, key: list[str], crt: Path, name: str, extensions: list[str], by: list[str] | None = None
) -> None:
    """Sign a certificate with its own key, or with the key of a CA. The command `openssl ca` is used, because `openssl
    x509 -req` has no option for the start of validity."""
    config, request = work / "config", work / "request"
    config.write_text(
        "[req]\ndistinguished_name=name\nprompt=no\n[name]\nO=mm_ros\nCN=" + name[:60] + "\n"
        "[ca]\ndefault_ca=own\n[own]\ndatabase=" + str(work / "index") + "\nrand_serial=yes\nnew_certs_dir=" + str(work)
        + "\ndefault_md=sha256\npolicy=any\nunique_subject=no\nemail_in_dn=no\n"
        "[any]\norganizationName=optional\ncommonName=supplied\n"
        "[ext]\n" + "\n".join(extensions) + "\n"
    )  # fmt: skip
    (work / "index").write_text("")
    _openssl("req", "-new", *key, "-config", str(config), "-out", str(request))
    begins = time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() - BACKDATED_S))
    ends_at = time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + (DAYS - 1) * 86_400))
    signer = ["-cert", by[1], "-keyfile", by[3]] if by else ["-selfsign", "-keyfile", key[1]]
    _openssl(
        "ca", "-batch", "-notext", "-config", str(config), "-extensions", "ext", "-startdate", begins, "-enddate",
        ends_at, *signer, "-in", str(request), "-out", str(crt),
    )  # fmt: skip


def _openssl(*words: str) -> str:
    program = shutil.which("openssl")
    if program is None:
        raise MmRosError("the headset page over Wi-Fi needs the program openssl: sudo apt install openssl")
    done = subprocess.run(
        [program, *words], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
        env={**os.environ, "LC_ALL": "C"},
    )  # fmt: skip
    if done.returncode:
        last = [line for line in done.stderr.splitlines() if line.strip()][-1:]
        raise MmRosError(f"openssl {words[0]} failed: {' '.join(last)}")
    return done.stdout
