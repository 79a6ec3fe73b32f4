"""Read pip's configuration, and translate it for uv, which does not read it.

Mirrors, air-gapped sites and folders of local wheels are configured for pip nearly everywhere: in `pip.conf` files
and `PIP_*` variables. pip's documentation ("Configuration", "pip install") is the source of the places, their order
and the format; uv's ("Environment variables", "Compatibility with pip") that of the translated names.

Settings are passed to uv in variables rather than in arguments if uv has both: an index's address may hold
credentials, and every user of a machine can read the arguments of all processes.
"""

from __future__ import annotations

import configparser
import math
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

from attrs import frozen

from dlperf_sdk import folders
from dlperf_sdk.environments.redact import find_secrets, redact
from dlperf_sdk.errors import EnvironmentFailed

_SECTIONS = ("global", "install")
"""Sections of a pip.conf that count for an installation; the later one wins."""

_MOST_LINES = 2000
"""Maximum number of lines of a configuration file: the time of `configparser` is quadratic in malformed lines."""
_SHORTEST = 4
"""Minimum number of characters of a secret that is masked outside of URLs. A shorter one could occur inside words."""


@frozen
class UvSettings:
    """Settings that uv is started with."""

    variables: Mapping[str, str]
    """The user's own variables that are not empty, and the translated settings."""
    arguments: tuple[str, ...]
    """Settings that uv takes only as arguments; none holds credentials."""
    secrets: frozenset[str]
    """Secrets in the variables, which must not be shown."""


def config_files(environ: Mapping[str, str], prefix: Path, etc: Path = Path("/etc")) -> list[Path]:
    """Return the paths of pip's configuration files on Linux. Later files take precedence; not all of them exist.

    The order is: the global files, the user's files, that of the virtual environment, and PIP_CONFIG_FILE. The
    user's files are left out if PIP_CONFIG_FILE names an existing file. `PIP_CONFIG_FILE=/dev/null` means no files
    at all.

    Args:
        environ: The environment variables of the user.
        prefix: The folder of the virtual environment, `sys.prefix`.
        etc: The folder in which the global files are looked for.
    """
    config_file = environ.get("PIP_CONFIG_FILE")
    if config_file == os.devnull:
        return []
    home = folders.home(environ)
    shared = environ.get("XDG_CONFIG_DIRS") or str(etc / "xdg")
    files = [Path(folder) / "pip" / "pip.conf" for folder in shared.split(os.pathsep) if folder]
    files.append(etc / "pip.conf")
    if not (config_file and Path(config_file).exists()):
        files += [] if home is None else [home / ".pip" / "pip.conf"]
        config = environ.get("XDG_CONFIG_HOME") or (home and home / ".config")
        files += [Path(config) / "pip" / "pip.conf"] if config else []
    files.append(prefix / "pip.conf")
    if config_file:
        files.append(Path(config_file))
    return files


def read(environ: Mapping[str, str], prefix: Path, etc: Path = Path("/etc")) -> dict[str, str]:
    """Return pip's settings for an installation as pip itself reads them: option name (`extra-index-url`) → text.

    A section `[install]` of any file takes precedence over every file's `[global]`, and a `PIP_*` variable over
    both. Empty values count as not given. Files that cannot be opened are left out.

    Args:
        environ: The environment variables of the user.
        prefix: The folder of the virtual environment, `sys.prefix`.
        etc: The folder in which the global files are looked for.

    Raises:
        EnvironmentFailed: A file is not in the INI format of pip, or has more than 2000 lines.
    """
    sections: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    for path in config_files(environ, prefix, etc):
        parser = configparser.RawConfigParser()
        try:
            text = path.read_text(encoding="utf-8")
            if len(text.splitlines()) > _MOST_LINES:
                raise configparser.Error(f"it has more than {_MOST_LINES} lines")
            parser.read_string(text, source=str(path))
        except OSError:
            continue
        except (configparser.Error, UnicodeDecodeError) as error:
            raise EnvironmentFailed(
                f"pip's configuration file {path} cannot be read ({redact(str(error))}). Correct or remove it, "
                "or set PIP_CONFIG_FILE=/dev/null to ignore it."
            ) from error
        for section in _SECTIONS:
            if parser.has_section(section):
                for key, value in parser.items(section):
                    sections[section][_option(key)] = value
    variables = {
        _option(name.removeprefix("PIP_")): value
        for name, value in environ.items()
        if name.startswith("PIP_")
    }
    merged: dict[str, str] = {}
    for layer in (*sections.values(), variables):
        merged.update({key: value for key, value in layer.items() if value.strip()})
    return merged


def _option(key: str) -> str:
    return key.lower().replace("_", "-").removeprefix("--")


def convert_for_uv(pip: Mapping[str, str], environ: Mapping[str, str], folder: Path) -> UvSettings:
    """Return pip's settings as environment variables and arguments for uv.

    Variables that the user has set for uv itself (`UV_*`) are kept and take precedence. Options of pip without an
    equivalent are dropped, and so are those that would change which versions are installed from a lock (`constraint`,
    `pre`, `require-hashes`).

    Args:
        pip: pip's settings, as `read` returns them: option name → text.
        environ: The environment variables of the user.
        folder: The folder to which relative paths refer.

    Raises:
        EnvironmentFailed: `no-index`, `timeout` or `retries` has a value that pip would reject as well.
    """
    environ_settings = {name: value for name, value in environ.items() if value}
    variables = {
        **environ_settings,
        **_indexes(pip, environ_settings, folder),
        **_network(pip, environ_settings, folder),
    }
    secrets = frozenset(secret for secret in _secrets(variables) if len(secret) >= _SHORTEST)
    return UvSettings(variables, tuple(_arguments(pip, environ_settings)), secrets)


def _indexes(pip: Mapping[str, str], environ_settings: Mapping[str, str], folder: Path) -> dict[str, str]:
    variables = {}
    # uv runs in another folder, so the user's own relative paths are made absolute as well.
    links = (
        environ_settings["UV_FIND_LINKS"].split(",")
        if "UV_FIND_LINKS" in environ_settings
        else pip.get("find-links", "").split()
    )
    if links:
        addresses = [_address(link.strip(), folder) for link in links if link.strip()]
        variables["UV_FIND_LINKS"] = ",".join(address.replace(",", "%2C") for address in addresses)
    if _switch(pip, "no-index"):
        return variables
    if "index-url" in pip and not environ_settings.keys() & {"UV_DEFAULT_INDEX", "UV_INDEX_URL"}:
        variables["UV_DEFAULT_INDEX"] = _address(pip["index-url"].strip(), folder)
    extra = [_address(index, folder) for index in pip.get("extra-index-url", "").split()]
    if extra and not environ_settings.keys() & {"UV_INDEX", "UV_EXTRA_INDEX_URL"}:
        variables["UV_INDEX"] = " ".join(extra)
        # pip takes the best version of all indexes; uv would take the first index that has the name.
        variables["UV_INDEX_STRATEGY"] = environ_settings.get("UV_INDEX_STRATEGY", "unsafe-best-match")
    return variables


def _network(pip: Mapping[str, str], environ_settings: Mapping[str, str], folder: Path) -> dict[str, str]:
    variables = {}
    if "cert" in pip and not environ_settings.keys() & {"SSL_CERT_FILE", "SSL_CERT_DIR"}:
        cert = _path(pip["cert"], folder)
        variables["SSL_CERT_DIR" if cert.is_dir() else "SSL_CERT_FILE"] = str(cert)
    if "client-cert" in pip and "SSL_CLIENT_CERT" not in environ_settings:
        variables["SSL_CLIENT_CERT"] = str(_path(pip["client-cert"], folder))
    seconds = pip.get("timeout") or pip.get("default-timeout")
    if seconds and not environ_settings.keys() & {"UV_HTTP_TIMEOUT", "UV_REQUEST_TIMEOUT", "HTTP_TIMEOUT"}:
        variables["UV_HTTP_TIMEOUT"] = _number("timeout", seconds)
    if "retries" in pip and "UV_HTTP_RETRIES" not in environ_settings:
        variables["UV_HTTP_RETRIES"] = _number("retries", pip["retries"])
    if "proxy" in pip:
        proxy = pip["proxy"].strip()
        # pip's own setting takes precedence over the general variables, which tools read in either case.
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            variables[name] = variables[name.lower()] = proxy if "://" in proxy else f"http://{proxy}"
    return variables


def _arguments(pip: Mapping[str, str], environ_settings: Mapping[str, str]) -> Iterator[str]:
    index_variables = {"UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL"}
    if _switch(pip, "no-index") and not environ_settings.keys() & index_variables:
        yield "--no-index"
    if "UV_INSECURE_HOST" not in environ_settings:
        for host in pip.get("trusted-host", "").split():
            yield from ("--allow-insecure-host", host)
    for option in ("only-binary", "no-binary"):
        for name in re.split(r"[\s,]+", pip.get(option, "")):
            if name and name != ":none:":
                yield from (f"--{option}", name)


def _path(text: str, folder: Path) -> Path:
    return (folder / folders.expand_home(text.strip())).absolute()


def _address(text: str, folder: Path) -> str:
    """Return an address unchanged; convert a path, with `~` and relative to `folder`, to a `file://` URL."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", text):
        return text
    return "file://" + quote(str(_path(text, folder)))


def _switch(pip: Mapping[str, str], option: str) -> bool:
    text = pip.get(option, "no").strip().lower()
    if text in {"y", "yes", "t", "true", "on", "1"}:
        return True
    if text in {"n", "no", "f", "false", "off", "0"}:
        return False
    raise EnvironmentFailed(
        f"pip's setting {option} is {text!r}; it must be yes or no. `pip config debug` shows where it is set."
    )


def _number(option: str, text: str) -> str:
    try:
        return str(max(0, math.ceil(float(text))))
    except (ValueError, OverflowError) as error:
        raise EnvironmentFailed(
            f"pip's setting {option} is {text.strip()!r}; it must be a number. `pip config debug` shows "
            "where it is set."
        ) from error


def _secrets(variables: Mapping[str, str]) -> Iterator[str]:
    for name, value in variables.items():
        if "://" in value and (name.startswith(("UV_", "PIP_")) or name.upper().endswith("_PROXY")):
            for part in re.split(r"[\s,]+", value):
                yield from find_secrets(part.partition("=")[2] if re.match(r"[\w-]+=", part) else part)
        elif re.fullmatch(r"UV_INDEX_\w+_PASSWORD", name) and value:
            yield value
