"""Redaction of results for sharing: without the names of hosts and users.

Names are *collected* where a result is known to hold them: hardware, variables, addresses, home directories. They
are then *replaced*, in upper and lower case, wherever they stand between characters that are neither letters nor
digits. The same name always has the same stand-in: `host-1`, `user`. A name that is also a word of the project is
kept, for it identifies nobody: a host called `cpu`, or a user called `amp` in `amp-fp16`.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

import attrs

from dlperf_sdk.documents import schema
from dlperf_sdk.results.convert import result_from_dict, result_to_dict, result_to_dict_without_records
from dlperf_sdk.results.result import Result
from dlperf_sdk.results.stand_ins import StandIns
from dlperf_sdk.spec.fields import check_name
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.spec.values import PHASES
from dlperf_sdk.worker.agent.placement import expand_hosts

_HOST_KEYS = frozenset({"host", "hosts", "hostname", "fqdn", "nodename", "address", "addresses", "ip"})
_HOST_VARIABLES = frozenset({"HOST", "HOSTNAME", "MASTER_ADDR", "DMLC_PS_ROOT_URI", "DMLC_NODE_HOST"})
_USER_KEYS = frozenset({"user", "username", "login", "owner"})
_USER_VARIABLES = frozenset({"USER", "LOGNAME", "USERNAME", "SUDO_USER"})
_IDENTIFIERS = {"boot_id": "boot", "uuid": "gpu"}
"""Key whose text identifies a machine or a GPU → what its stand-in begins with."""
_HOME = re.compile(r"(/(?:home|Users)/)([^/\s:'\",;()<>\[\]{}]+)")
_URL_HOST = re.compile(r"://(?:[^/\s@]*@)?([A-Za-z0-9][A-Za-z0-9.-]*)")
_ADDRESS = re.compile(r"[0-9.]+|[0-9a-fA-F.]*:[0-9a-fA-F:.]*")
_SPELLED = re.compile(r"(?<![0-9a-fA-F:.])[0-9a-fA-F.]*:[0-9a-fA-F:.]+")
"""Texts that may contain an address of IPv6, in any of its spellings."""
_LONGEST_ADDRESS = len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255")
_CREDENTIALS = re.compile(r"(://)[^/\s@]*@")
_JOINED = re.compile(r"[\w-]+")
_LONGEST_WORD = 80
"""Characters; no word of the project is longer."""
_PUBLIC = frozenset(
    {
        *("github.com", "huggingface.co"),
        *("localhost", "0.0.0.0"),  # noqa: S104 - nothing is bound here
    }
)
_LOOPBACK = frozenset({"127.0.0.1", "::1"})
"""Addresses that every machine has: they do not show that two hosts are the same."""
_FREE = frozenset({"hardware", "observed", "requested"})
"""Fields of a document that take any value, so that keys in them may be names as well."""


def redact_result(result: Result, hosts: Iterable[str] = (), users: Iterable[str] = ()) -> Result:
    """Return a copy of a result without the names of hosts and users. Its repeats are in memory.

    Host names become `host-1`, …, user names `user`, `user-2`, …, boot ids `boot-1`, …, and UUIDs of GPUs `gpu-1`,
    …. Names of home directories become `user`, and credentials in URLs are removed. A name is kept if it is also a
    word of the schemas or of the case, such as `cpu`. The names of this machine and its user are not looked up.

    Args:
        result: The result. Its records are read.
        hosts: Names of hosts to replace in addition to those that are found in the result.
        users: Names of users to replace in addition to those that are found in the result.

    Raises:
        DocumentError: The result's records cannot be read, or the result breaks its schema; or the result holds a value
            that JSON cannot represent.
    """
    document = result_to_dict(result)
    words = _vocabulary(result)
    replace = _make_replacer(
        [*((host,) for host in hosts), *_hosts(document)],
        [*users, *_users(document)],
        words,
        [(_IDENTIFIERS[key], text) for key, text in _texts(document, "") if key in _IDENTIFIERS],
    )
    return result_from_dict(_rewrite(document, replace, free=False))


def make_redactor_of(
    results: Iterable[Result], hosts: Iterable[str] = (), users: Iterable[str] = ()
) -> Callable[[str], str]:
    """Return a function that redacts texts about several results, such as the names of their cases.

    It takes a text and returns it without the names that `redact_result` replaces in any of these results. Records are
    not read, so names that only a record holds are not known to it.

    Args:
        results: The results.
        hosts: Names of further hosts to replace.
        users: Names of further users to replace.

    Raises:
        DocumentError: A result holds a value that JSON cannot represent.
    """
    places: dict[tuple[str, ...], None] = dict.fromkeys((host,) for host in hosts)
    people, words = [*users], _schema_words()
    for result in results:
        document = result_to_dict_without_records(result)
        places.update(dict.fromkeys(_hosts(document)))
        people += _users(document)
        words |= _vocabulary(attrs.evolve(result, repeats=()))
    return _make_replacer(places, dict.fromkeys(people), words)


def redact_text(text: str, hosts: Iterable[str], users: Iterable[str]) -> str:
    """Return a text without the names of given hosts and users, names of home directories, and credentials in URLs.

    Hosts are replaced by `host-1`, …, users by `user`, `user-2`, …, home directories by `user`. A name is kept if it
    is also a word of the schemas, such as `cpu`, or if it is a single character, a number or `root`.

    Args:
        text: The text.
        hosts: Names or addresses of hosts. A name is also replaced where it stands without its domain.
        users: Names of users.
    """
    return _make_replacer([(host,) for host in hosts], users, _schema_words())(text)


def _make_replacer(
    hosts: Iterable[Iterable[str]],
    users: Iterable[str],
    words: frozenset[str],
    identifiers: Iterable[tuple[str, str]] = (),
) -> Callable[[str], str]:
    """Return a function that replaces hosts, under all their names, users and identifiers by stand-ins in a text.

    It also drops credentials in URLs and the names of home directories. Names that are among `words` are kept.
    Identifiers are pairs of what the stand-in begins with and the identifier.
    """
    names = StandIns()
    for forms in hosts:
        _name_host(forms, words, names)
    people = 0
    for user in users:
        if _is_name(user, words) and names.get(user) is None:
            people += 1
            names.add(user, "user" if people == 1 else f"user-{people}")
    counts: Counter[str] = Counter()
    for kind, identifier in dict.fromkeys(identifiers):
        counts[kind] += 1
        names.add(identifier, f"{kind}-{counts[kind]}")

    def is_kept(text: str, start: int, end: int) -> bool:
        """Return True if a name is part of one of the project's words; it may be joined to others by `_` or `-`."""
        excerpt = text[max(0, start - _LONGEST_WORD) : end + _LONGEST_WORD]
        position = min(start, _LONGEST_WORD)
        joined = next(word[0] for word in _JOINED.finditer(excerpt) if word.end() > position)
        return joined in words

    replace_names = names.make_replacer(is_kept)

    def replace(text: str) -> str:
        text = _CREDENTIALS.sub(r"\1", text)
        text = _SPELLED.sub(lambda match: _replace_address(match[0], names), text)
        text = replace_names(text)
        return _HOME.sub(lambda match: match[1] + (match[2] if match[2].startswith("user") else "user"), text)

    return replace


def _name_host(forms: Iterable[str], words: frozenset[str], names: StandIns) -> None:
    """Add a stand-in to `names` for all forms of one host: name, address, and name without its domain."""
    spellings: list[str] = []
    for form in forms:
        bare = re.sub(r"^(?:\[(.*)\]|([^:]*)):[0-9]+$", r"\1\2", form).partition("%")[0]
        if bare not in _PUBLIC:
            spellings += [bare, _short_address(bare) if _ADDRESS.fullmatch(bare) else bare.partition(".")[0]]
    spellings = [form for form in spellings if _is_name(form, words)]
    known = (names.get(form) for form in spellings if form not in _LOOPBACK)
    stand_in = next(filter(None, known), f"host-{names.count() + 1}")
    for form in spellings:
        names.add(form, stand_in)


def _replace_address(text: str, names: StandIns) -> str:
    """Replace a known address in a text of its characters, which may end a word before it, or a port after it."""
    if "::" not in text and text.count(":") < 6:  # such as a time: a log may have a hundred thousand
        return text
    stripped = text.rstrip(".:")
    for start in (0, text.index(":") + 1):
        for end in dict.fromkeys((len(text), len(stripped), stripped.rfind(":"))):
            stand_in = names.get(_short_address(text[start:end]))
            if stand_in:
                return text[:start] + stand_in + text[end:]
    return text


def _short_address(text: str) -> str:
    """Return the shortest spelling of an address: IPv4 if it stands for one; an empty text if it is no address."""
    if len(text) > _LONGEST_ADDRESS:
        return ""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return ""
    return str(getattr(address, "ipv4_mapped", None) or address)


def _is_name(text: str, words: frozenset[str]) -> bool:
    """Return True if the text can be distinguished from an ordinary word or number."""
    return len(text) > 1 and not text.isdigit() and text not in words and text != "root"


def _vocabulary(result: Result) -> frozenset[str]:
    """Return the words of a result that are not names of hosts and users."""
    spec = result.spec
    names = [field.name for field in attrs.fields(RunSpec) if field.validator is check_name]
    words: set[str] = {getattr(spec, name) for name in names}
    words |= {
        str(spec.topology),
        spec.topology.launcher,
        spec.data.source,
        *PHASES,
        "measure",
        "ready",
        "done",
    }
    words |= _schema_words()
    words |= {word for metric in result.metrics for word in (metric.name, metric.unit)}
    words |= {verdict.name for verdict in result.verdicts} | {fact.name for fact in result.facts}
    series = [series for repeat in result.repeats for series in repeat.series]
    return frozenset(words | {word for item in series for word in (item.name, item.unit)})


@cache
def _schema_words() -> frozenset[str]:
    return frozenset(word for name in schema.NAMES for word in _enum_words(schema.load(name)))


def _enum_words(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (word for word in (*value.get("enum", ()), value.get("const")) if isinstance(word, str))
        for item in value.values():
            yield from _enum_words(item)
    elif isinstance(value, list):
        for item in value:
            yield from _enum_words(item)


def _hosts(document: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the hosts, each with all its names; the nodes' own first, so that `host-1` is node 0's."""
    for node in document["hardware"]:
        keys = _HOST_KEYS - {"hosts"}
        yield tuple(text for key, text in _texts(node, "") if key in keys)
    for key, text in _texts(document, ""):
        if key == "hosts":
            yield from ((name.rpartition("@")[2],) for name in _listed_hosts(text))
            if "[" in text:  # a list in Slurm's form has names that no host has
                yield (text,)
        elif key in _HOST_KEYS or key in _HOST_VARIABLES:
            yield (text,)
    # Cited sources are URLs, too: hosts are taken only from fields that name an index or a proxy.
    environment = document["environment"] or {}
    for part in (*(environment.get(name) for name in ("lock", "command", "variables")), document["failure"]):
        for _, text in _texts(part, ""):
            yield from ((host,) for host in _URL_HOST.findall(text))


def _listed_hosts(text: str) -> list[str]:
    """Return the names in a list of hosts, such as `user@n[1-2],n7`; the text itself if it is no such list."""
    try:
        return expand_hosts(text)
    except ValueError:
        return [text]


def _users(document: Mapping[str, Any]) -> Iterator[str]:
    for key, text in _texts(document, ""):
        if key == "hosts":
            yield from filter(None, (name.rpartition("@")[0] for name in _listed_hosts(text)))
        elif key in _USER_KEYS or key in _USER_VARIABLES:
            yield text
        elif key == "HOME":
            yield text.rstrip("/").rpartition("/")[2]
        yield from (match[2] for match in _HOME.finditer(text))


def _texts(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """Yield every text in a document with its key; keys that look like paths have none."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict):
        for name, item in value.items():
            if "/" in name:
                yield "", name
            yield from _texts(item, name)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, key)


def _rewrite(value: Any, replace: Any, free: bool) -> Any:
    """Return the document with every text replaced; keys only where they are free."""
    if isinstance(value, str):
        return replace(value)
    if isinstance(value, list):
        return [_rewrite(item, replace, free) for item in value]
    if not isinstance(value, dict):
        return value
    written: dict[str, Any] = {}
    for key, item in value.items():
        inside = free or key in _FREE or (key == "facts" and isinstance(item, dict))
        name, count = replace(key) if free else key, 2
        while name in written:
            name, count = f"{replace(key)}-{count}", count + 1
        written[name] = _rewrite(item, replace, inside)
    return written
