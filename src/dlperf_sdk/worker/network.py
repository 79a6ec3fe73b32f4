"""Addresses, interfaces and ports of this node: found, not typed."""

import fcntl
import socket
import struct
from typing import List

_SIOCGIFADDR = 0x8915


def free_ports(host: str, count: int) -> List[str]:
    """Ports on this address that nobody listens on at this moment."""
    held = []
    try:
        for _ in range(count):
            listener = socket.socket()
            held.append(listener)
            listener.bind((host, 0))
        return [str(listener.getsockname()[1]) for listener in held]
    finally:
        for listener in held:
            listener.close()


def interface_of(address: str) -> str:
    """The name of the interface that has this IPv4 address; empty if none has."""
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
    """The address of this node from which a host is reached. Raises OSError: its name or a way to it is not known."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 9))  # nothing is sent: the kernel only chooses the way
        return str(probe.getsockname()[0])


def address_of(interface: str) -> str:
    """The IPv4 address of an interface. Raises OSError: there is none of this name, or it has no address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        answer = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", interface.encode()[:15]))
    return socket.inet_ntoa(answer[20:24])
