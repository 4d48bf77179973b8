"""A file system for Beam whose paths, `madeup:///tmp/x`, are those of this disk."""

from apache_beam.io.filesystem import FileMetadata
from apache_beam.io.localfilesystem import LocalFileSystem

SCHEME = "madeup"
_START = f"{SCHEME}:/"


class MadeUpFileSystem(LocalFileSystem):
    """Takes the scheme off what it is given, and puts it on what it finds."""

    @classmethod
    def scheme(cls):
        return SCHEME

    def join(self, basepath, *paths):
        return "/".join([basepath.rstrip("/"), *paths])

    def _list(self, dir_or_prefix):
        for found in super()._list(dir_or_prefix.removeprefix(_START)):
            yield FileMetadata(_START + found.path, found.size_in_bytes)

    def has_dirs(self):
        return False

    def create(self, path, *arguments, **keywords):
        return super().create(path.removeprefix(_START), *arguments, **keywords)

    def open(self, path, *arguments, **keywords):
        return super().open(path.removeprefix(_START), *arguments, **keywords)

    def exists(self, path):
        return super().exists(path.removeprefix(_START))

    def size(self, path):
        return super().size(path.removeprefix(_START))
