"""Determine addresses, interfaces and ports of this node, so that users need not configure them."""

import errno
import fcntl
import random
import re
import socket
import struct
from typing import List, Sequence

USUAL = range(20000, 32000)
"""Ports to listen on if the user names none. They end below 32768, where Linux's ephemeral ports begin
(`ip_local_port_range`): those of outgoing connections, and of listeners on port 0, which frameworks use, too."""
_SIOCGIFADDR = 0x8915
_BLOCKS = 8
"""Blocks of ports to try, before single ones are taken."""


def port_range(text: str) -> range:
    """Return the ports of a text such as `40000-40100`, both ends included; an empty range if the text is empty.

    Raises:
        ValueError: The text is not of this form, the ports are not within 1024-65535, or the first is above the last.
    """
    if not text:
        return range(0)
    match = re.fullmatch("([0-9]{4,5})-([0-9]{4,5})", text)
    first, last = (int(match.group(1)), int(match.group(2))) if match else (0, 0)
    if not 1024 <= first <= last <= 65535:
        raise ValueError("%.50r is not a range of ports; write FIRST-LAST, within 1024-65535" % text)
    return range(first, last + 1)


def free_ports(host: str, count: int, candidates: Sequence[int] = USUAL) -> List[str]:
    """Return `count` ports that are free on an address of this node now, as texts of digits such as `29400`.

    The ports are not reserved. They are chosen at random, so that another search probably returns other ports. If
    possible, they are consecutive entries of `candidates`.

    Args:
        host: The IPv4 address of this node, or a host name for it.
        count: Number of ports.
        candidates: The ports that may be used; each occurs once.

    Returns:
        `count` different ports, in the order of `candidates` if they are consecutive entries, else in any order.

    Raises:
        OSError: There are not enough free ports, or the address is not one of this node.
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
    """Return the name, such as `eth0`, of this node's network interface with a given address; empty if none has it.

    Args:
        address: The IPv4 address in digits, such as `10.0.0.1`.
    """
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
    """Return the IPv4 address, in digits, from which this node reaches a host. Nothing is sent.

    Args:
        host: IPv4 address or name of the host.

    Raises:
        OSError: The host's name is unknown, or there is no route to the host.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, 9))  # nothing is sent: the kernel only chooses the way
        except OSError as error:
            raise OSError("there is no route from this node to %r: %s" % (host, error.strerror)) from error
        return str(probe.getsockname()[0])


def address_of(interface: str) -> str:
    """Return the IPv4 address, in digits, of a network interface of this node.

    Args:
        interface: The interface's name, such as `eth0`.

    Raises:
        OSError: There is no interface of this name, or it has no IPv4 address.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        answer = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", interface.encode()[:15]))
    return socket.inet_ntoa(answer[20:24])
