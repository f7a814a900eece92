"""The versions of a stored model: the one in use, and the one that an update replaced."""

from __future__ import annotations

import hashlib
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ..failpoints import failpoint
from ..metadata.manifest import MANIFEST, Manifest, check_sizes, load_manifest, write_manifest
from ..sources.partial_file import sync_folder
from .model_removal import bytes_freed

_VERSIONS = ".versions"
_NEXT = "next"


@dataclass(frozen=True, slots=True)
class ModelVersions:
    """The versions of the model in `folder`; the caller holds its lock where it changes them.

    The manifest alone says which version is in use, and it is replaced in one step. Files of a
    version stay where they are: `.versions/ID/` has those that an update brought, and the manifest
    of a version that was replaced.
    """

    folder: Path

    @property
    def next(self) -> Path:
        """The folder into which the next version is downloaded, which may be continued."""
        return self.folder / _VERSIONS / _NEXT

    def kept(self) -> list[Manifest]:
        """The whole versions that are not in use."""
        found: list[Manifest] = []
        try:
            current = version_id(load_manifest(self.folder).digests)
        except (OSError, ValueError):  # the model was removed just now
            return found
        for record in sorted((self.folder / _VERSIONS).glob(f"*/{MANIFEST}")):
            with suppress(OSError, ValueError):  # not whole, so it cannot be used
                manifest = load_manifest(record.parent)
                check_sizes(manifest, self.folder)
                if version_id(manifest.digests) != current:
                    found.append(manifest)
        return found

    def adopt(self, manifest: Manifest) -> Manifest:
        """Make the complete download in `next` a version; returns its manifest."""
        identity = version_id(manifest.digests)
        for kept in (*self.kept(), load_manifest(self.folder)):
            if version_id(kept.digests) == identity:  # known by now, not by what its source stated
                shutil.rmtree(self.next)
                return kept
        manifest = msgspec.structs.replace(manifest, folder=f"{_VERSIONS}/{identity}")
        target = self.folder / manifest.folder
        shutil.rmtree(target, ignore_errors=True)  # a killed update did not come to use it
        self.next.replace(target)
        sync_folder(target.parent)
        return manifest

    def use(self, manifest: Manifest) -> None:
        """Put a version in use, and keep the one that was; others are removed."""
        current = load_manifest(self.folder)
        record = self.folder / _VERSIONS / version_id(current.digests)
        record.mkdir(parents=True, exist_ok=True)
        write_manifest(record, current)
        sync_folder(record.parent)
        failpoint("update.switch")
        write_manifest(self.folder, manifest)
        self._remove_others([manifest, current])

    def discard(self) -> int:
        """Remove all versions but the one in use, and an unfinished download; returns the bytes
        that this frees.
        """
        before = self._bytes()
        current = load_manifest(self.folder)
        self._remove_others([current])
        shutil.rmtree(self.next, ignore_errors=True)
        return before - self._bytes()

    def _bytes(self) -> int:
        return bytes_freed(path for path in self.folder.rglob("*") if path.is_file())

    def _remove_others(self, manifests: list[Manifest]) -> None:
        identities = {version_id(manifest.digests) for manifest in manifests}
        for path in (self.folder / _VERSIONS).glob("*"):
            if path.name not in {*identities, _NEXT}:
                shutil.rmtree(path)
        needed = {name for each in manifests if not each.folder for name in each.digests}
        for path in self.folder.iterdir():
            if path.is_file() and path.name != MANIFEST and path.name not in needed:
                path.unlink()


def version_id(digests: dict[str, str]) -> str:
    """16 hexadecimal digits that identify a model's files by their names and digests."""
    listed = "\n".join(f"{name} {digest}" for name, digest in sorted(digests.items()))
    return hashlib.sha256(listed.encode()).hexdigest()[:16]
