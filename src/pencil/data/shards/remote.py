"""Remote addresses by fsspec: sizes, listings, whole files; with retries for temporary errors."""

from __future__ import annotations

import errno
import functools
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

from pencil.errors import DataError, MissingExtraError, PencilError
from pencil.imports import need
from pencil.places import is_remote, may_contact, remedy

Value = TypeVar("Value")
PAUSES = (0.5, 1.0, 2.0, 4.0)
"""Seconds before each retry."""
CONNECT_SECONDS, SILENCE_SECONDS = 30, 60
PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "http": "aiohttp", "https": "aiohttp"}
_LASTING = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)


class CutOffError(OSError):
    """Fewer or other bytes arrived than were announced; another try may do better."""


def remote_size(url: str) -> int | None:
    """The bytes of a remote file, None where its server does not report it; FileNotFoundError where there is none."""
    size = patiently(url, lambda: filesystem(url).info(url)["size"])
    return None if size is None else int(size)


def remote_matches(url: str) -> list[str]:
    """The addresses that fit a pattern, or are in a folder."""
    system, scheme = filesystem(url), url.partition("://")[0]
    found: list[str] = patiently(url, lambda: system.glob(url))
    return sorted(name if is_remote(name) else f"{scheme}://{name}" for name in found)


def fetch(url: str, target: Path, check: Callable[[Path], None] = lambda _: None) -> None:
    """Copy a remote file to ``target``; ``check`` raises ``CutOffError`` where the copy is not what it should be."""

    def copy() -> None:
        filesystem(url).get_file(url, str(target))
        check(target)

    patiently(url, copy)


def patiently(url: str, action: Callable[[], Value]) -> Value:
    """The result of an action, repeated after pauses while its error may be temporary. A missing file fails at once."""
    for pause in (*PAUSES, None):
        try:
            return action()
        except PencilError:
            raise
        except FileNotFoundError as error:
            if isinstance(error.__cause__, PencilError):  # fsspec takes any error for a missing file
                raise error.__cause__ from None
            raise
        except Exception as error:  # every fsspec backend has errors of its own
            if pause is None or not _may_pass(error):
                tries = "" if pause is not None else f" after {len(PAUSES) + 1} tries"
                raise DataError(
                    f"{url}: cannot be fetched{tries} ({type(error).__name__}: {error}); check the address"
                ) from error
            time.sleep(pause)
    raise AssertionError("the last try returns or raises")


def filesystem(url: str) -> Any:
    """The fsspec file system of an address. Not kept: fsspec's own cache knows which are safe after a fork."""
    fsspec = need("fsspec", extra="remote", purpose=f"read {url}")
    scheme = url.partition("://")[0]
    options = _http_options() if scheme in ("http", "https") else {}
    try:
        return fsspec.filesystem(scheme, **options)
    except ImportError as error:
        package = PACKAGES.get(scheme, scheme)
        raise MissingExtraError(
            f"{package} is needed to read {scheme}:// addresses; install it with: pip install {package} ({error})"
        ) from error
    except ValueError as error:
        raise DataError(f"{url}: {scheme}:// is unknown ({error}); use s3, gs, http or https") from error


def _http_options() -> dict[str, Any]:
    """No limit on the whole of a large file, only on silence; redirects to other servers are not followed."""
    aiohttp = need("aiohttp", extra="remote", purpose="read http:// and https:// addresses")
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS)
    return {"client_kwargs": {"timeout": timeout, "trace_configs": [_watching_redirects(aiohttp)]}}


@functools.cache  # fsspec keeps one file system for the same options
def _watching_redirects(aiohttp: ModuleType) -> Any:
    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(_check_redirect)
    return trace


async def _check_redirect(_session: Any, _context: Any, params: Any) -> None:
    """Follow a redirect within its own server, or to an address that is allowed."""
    here, there = str(params.url), urljoin(str(params.url), params.response.headers.get("Location", ""))
    if urlsplit(here)[:2] != urlsplit(there)[:2] and not may_contact(there):
        raise DataError(f"{here}: redirects to {there}, which is not followed; {remedy(there)}")


def _may_pass(error: Exception) -> bool:
    status = getattr(error, "status", None)
    if isinstance(status, int):
        return status >= 500 or status in (408, 429)
    if isinstance(error, _LASTING) or getattr(error, "errno", None) == errno.ENOSPC:
        return False
    return isinstance(error, OSError) or type(error).__module__.startswith("aiohttp")
