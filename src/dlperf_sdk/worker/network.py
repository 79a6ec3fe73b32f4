"""Addresses, interfaces and ports of this node: found, not typed."""

import errno
import fcntl
import random
import re
import socket
import struct
from typing import List, Sequence

USUAL = range(20000, 32000)
"""Ports to listen on where nobody has said which. They end below 32768, from where Linux gives out ports by itself
(`ip_local_port_range`): to whoever connects, and to whoever listens on port 0, as frameworks do as well."""
_SIOCGIFADDR = 0x8915
_BLOCKS = 8
"""Blocks of ports to try, before single ones are taken."""


def port_range(text: str) -> range:
    """Return the ports of `40000-40100`, both ends included; none if the text is empty.

    Raises:
        ValueError: it is no range of ports that a user may listen on.
    """
    if not text:
        return range(0)
    match = re.fullmatch("([0-9]{4,5})-([0-9]{4,5})", text)
    first, last = (int(match.group(1)), int(match.group(2))) if match else (0, 0)
    if not 1024 <= first <= last <= 65535:
        raise ValueError("%.50r is no range of ports; write FIRST-LAST, within 1024-65535" % text)
    return range(first, last + 1)


def free_ports(host: str, count: int, candidates: Sequence[int] = USUAL) -> List[str]:
    """Return `count` ports of `candidates` on the address `host` that nobody listens on, nor is likely to soon.

    They follow each other in `candidates` if there is such a block: all nodes are told of them, and a block takes few
    bytes. Other searches begin at other ports.

    Raises:
        OSError: there are not so many, or the address is not this node's.
    """
    if len(candidates) < count:
        message = (
            "%d ports are needed, and %d may be used: nodes of one machine share those that the topology's option "
            "'ports' allows, so allow more"
        )
        raise OSError(message % (count, len(candidates)))
    for _ in range(_BLOCKS):
        start = random.SystemRandom().randrange(len(candidates) - count + 1)
        ports = _bindable(host, candidates[start : start + count], count)
        if len(ports) == count:
            return ports
    ports = _bindable(host, random.SystemRandom().sample(candidates, len(candidates)), count)
    if len(ports) < count:
        message = "%d ports are needed, and of %d to %d only %d are free on %s"
        raise OSError(message % (count, min(candidates), max(candidates), len(ports), host))
    return ports


def _bindable(host: str, ports: Sequence[int], count: int) -> List[str]:
    """Return the first `count` of these ports that can be bound, or fewer. Raises OSError: the address is not ours."""
    bound: List[socket.socket] = []
    try:
        for port in ports:
            if len(bound) == count:
                break
            listener = socket.socket()
            try:
                listener.bind((host, port))
            except OSError as error:
                listener.close()
                if error.errno == errno.EADDRNOTAVAIL:
                    raise
                continue
            bound.append(listener)
        return [str(listener.getsockname()[1]) for listener in bound]
    finally:
        for listener in bound:
            listener.close()


def interface_of(address: str) -> str:
    """Return the name of the interface that has this IPv4 address; empty if none has."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue  # it has no IPv4 address
            if socket.inet_ntoa(answer[20:24]) == address:
                return name
    return ""


def address_towards(host: str) -> str:
    """Return the address of this node from which a host is reached.

    Raises OSError: its name or a way to it is not known.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, 9))  # nothing is sent: the kernel only chooses the way
        except OSError as error:
            raise OSError("there is no way from here to %r: %s" % (host, error.strerror)) from error
        return str(probe.getsockname()[0])


def address_of(interface: str) -> str:
    """Return the IPv4 address of an interface. Raises OSError: there is none of this name, or it has no address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        answer = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", interface.encode()[:15]))
    return socket.inet_ntoa(answer[20:24])
