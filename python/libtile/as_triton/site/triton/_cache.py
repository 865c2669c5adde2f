# SPDX-License-Identifier: Apache-2.0
"""`triton.runtime.cache`: what programs ask of Triton's cache of compiled kernels. libtile keeps its own."""
import base64
from abc import ABC, abstractmethod

import libtile

__all__ = ["CacheManager", "FileCacheManager", "RedisRemoteCacheBackend", "RemoteCacheBackend", "RemoteCacheManager",
           "_base32", "default_cache_dir", "get_cache_manager", "triton_key"]


def _base32(key):
    """Of a text of hexadecimal digits."""
    return base64.b32encode(bytes.fromhex(key)).decode("utf-8").rstrip("=")


def triton_key():
    """Changes whenever the compiler does."""
    from triton._compiler import triton_key as key
    return key()


def default_cache_dir():
    from triton import knobs
    return knobs.cache.dir


class CacheManager(ABC):
    """The interface of a cache of files."""

    def __init__(self, key):
        self.key = key

    @abstractmethod
    def get_file(self, filename):
        """The path of a file; None: it is not there."""

    @abstractmethod
    def put(self, data, filename, binary=True):
        """Writes a file; its path."""


class FileCacheManager(CacheManager):
    """Files in a folder of their own under the cache's."""

    def __init__(self, key, override=False, dump=False):
        import os
        from triton import knobs
        super().__init__(key)
        top = knobs.cache.dump_dir if dump else knobs.cache.override_dir if override else knobs.cache.dir
        self.cache_dir = os.path.join(top, key)
        os.makedirs(self.cache_dir, exist_ok=True)

    def _path(self, filename):
        import os
        return os.path.join(self.cache_dir, filename)

    def has_file(self, filename):
        import os
        return os.path.exists(self._path(filename))

    def get_file(self, filename):
        return self._path(filename) if self.has_file(filename) else None

    def put(self, data, filename, binary=True):
        import os
        path = self._path(filename)
        made = f"{path}.{os.getpid()}"
        with open(made, "wb") as file:
            file.write(data if isinstance(data, bytes) else str(data).encode())
        os.replace(made, path)
        return path

    def put_group(self, filename, group):
        import json
        return self.put(json.dumps({"child_paths": group}), f"__grp__{filename}", binary=False)

    def get_group(self, filename):
        import json
        import os
        path = self.get_file(f"__grp__{filename}")
        if path is None:
            return None
        with open(path, encoding="utf-8") as file:
            group = json.load(file).get("child_paths")
        return group if group and all(map(os.path.exists, group.values())) else None


def get_cache_manager(key):
    """The manager that TRITON_CACHE_MANAGER names, or one of files."""
    from triton import knobs
    return (knobs.cache.manager_class or FileCacheManager)(key)


class RemoteCacheBackend(ABC):
    """The interface of a cache on another machine."""

    def __init__(self, key):
        self.key = key

    @abstractmethod
    def get(self, filenames):
        """The contents of the files that are there, by name."""

    @abstractmethod
    def put(self, filename, data):
        """Keeps a file."""


class RedisRemoteCacheBackend(RemoteCacheBackend):
    """Not there: libtile has no remote cache."""

    def __init__(self, key):
        raise libtile.UnsupportedError("libtile keeps no kernels on other machines")

    def get(self, filenames):
        raise NotImplementedError

    def put(self, filename, data):
        raise NotImplementedError


class RemoteCacheManager(FileCacheManager):
    """Not there: libtile has no remote cache."""

    def __init__(self, key, override=False, dump=False):
        raise libtile.UnsupportedError("libtile keeps no kernels on other machines")
