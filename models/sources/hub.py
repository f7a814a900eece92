"""A file of a repository on the Hugging Face hub.

huggingface_hub knows the endpoint, the token and the offline switch of the user's set-up and lists
repositories; the bytes come through our own HTTP source, for progress and resume.
"""

from __future__ import annotations

import re
import socket
import threading
import urllib.request
from collections.abc import Sequence
from urllib.parse import urlsplit

from ..catalog import FILE
from ..errors import ModelNotFound, SourceUnavailable, UnsupportedModel
from .base import Cancelled, OnProgress, RemoteFile
from .http import HTTPSource
from .partial import PartialFile

_PROBE_SECONDS = 4
_LIST_SECONDS = 10
_PART = re.compile(r"-\d{5}-of-\d{5}\.gguf$", re.IGNORECASE)
_QUANT = re.compile(
    r"(?:^|[-._])((?:UD-)?(?:IQ\d_[A-Z0-9_]+|Q\d_K(?:_[A-Z]{1,2})?|Q\d_\d(?:_\d_\d)?|TQ\d_\d"
    r"|MXFP4(?:_MOE)?|NVFP4|BF16|F16|F32))(?=[-._]|$)",
    re.IGNORECASE,
)
_PREFERRED = ("Q4_K_M", "Q4_K_S", "Q4_0", "Q5_K_M", "IQ4_XS", "Q8_0", "BF16", "F16")


class HubSource:
    """One file of one repository; without `endpoint` the one that HF_ENDPOINT names."""

    scratch_fraction = 0.0

    def __init__(self, repo: str, file: str, *, endpoint: str | None = None) -> None:
        self._repo = repo
        self._file = file
        self._endpoint = endpoint

    @property
    def label(self) -> str:
        """The repository as people write it."""
        return f"hf.co/{self._repo}"

    def fetch(
        self, file: RemoteFile, partial: PartialFile, on_progress: OnProgress, cancelled: Cancelled
    ) -> None:
        """Bring the file to its end; see `Source.fetch`."""
        hub = _Hub(self._endpoint)
        hub.require_answer()
        headers = {"Authorization": f"Bearer {token}"} if (token := hub.token) else None
        url = hub.url(self._repo, self._file)
        HTTPSource(url, headers=headers, label=self.label).fetch(
            file, partial, on_progress, cancelled
        )


def find_file(repo: str, quant: str | None, *, endpoint: str | None = None) -> RemoteFile:
    """The GGUF of a repository with this quantization, or the usual choice where it is None.

    Raises `SourceUnavailable`, `ModelNotFound` where the repository has no such file, and
    `UnsupportedModel` where it has one in several parts only.
    """
    files = _Hub(endpoint).files(repo)
    return choose_file(repo, files, quant)


def choose_file(repo: str, files: Sequence[RemoteFile], quant: str | None) -> RemoteFile:
    """Pick among a repository's files by their names; see `find_file`."""
    models = [file for file in files if _is_model(file.name)]
    if not models and any(file.name.endswith(".safetensors") for file in files):
        raise UnsupportedModel(
            f"hf.co/{repo} has its model in safetensors, which ingle runs but does not pull yet.",
            hint=f"`hf download {repo} --local-dir FOLDER` fetches it; then name ./FOLDER.",
        )
    if not models:
        raise ModelNotFound(
            f"hf.co/{repo} has no GGUF file.", hint="Look for a repository whose name ends in GGUF."
        )
    whole = {quantization_of(file.name): file for file in models if _is_whole(file.name)}
    wanted = (quant,) if quant else (*_PREFERRED, *whole)
    for name in wanted:
        if name in whole:
            return whole[name]
    if any(quant is None or quantization_of(file.name) == quant for file in models):
        raise UnsupportedModel(
            f"hf.co/{repo} has {quant or 'its models'} only in parts or in folders, which ingle "
            "cannot join yet.",
            hint="Choose a smaller quantization that is one file.",
        )
    known = ", ".join(sorted(whole)) or "none as one file"
    raise ModelNotFound(f"hf.co/{repo} has no {quant}.", hint=f"It has: {known}.")


def quantization_of(file: str) -> str:
    """The quantization in a file's name, in upper case, else what the name itself can give."""
    stem = file.rpartition("/")[2].removesuffix(".gguf")
    found = _QUANT.findall(_PART.sub(".gguf", stem))
    return found[-1].upper() if found else re.sub(r"[^A-Z0-9_-]", "-", stem.upper())[:32]


def _is_model(name: str) -> bool:
    lower = name.lower()
    return lower.endswith(".gguf") and "mmproj" not in lower and "imatrix" not in lower


def _is_whole(name: str) -> bool:
    return FILE.fullmatch(name) is not None and _PART.search(name) is None


class _Hub:
    """The parts of huggingface_hub that are used, imported when they are."""

    def __init__(self, endpoint: str | None) -> None:
        import huggingface_hub
        from huggingface_hub import constants

        # Its telemetry adds facts about the machine to every request; ours sends none. The variable
        # of that name counts only where nobody else has imported the library before.
        constants.HF_HUB_DISABLE_TELEMETRY = True
        self._library = huggingface_hub
        self._endpoint = (endpoint or constants.ENDPOINT).rstrip("/")
        self._offline = bool(constants.HF_HUB_OFFLINE)

    @property
    def token(self) -> str | None:
        """The user's token, from HF_TOKEN or where `hf auth login` put it."""
        return self._library.get_token()

    def url(self, repo: str, file: str) -> str:
        """The address of a file."""
        return self._library.hf_hub_url(repo, file, endpoint=self._endpoint)

    def files(self, repo: str) -> list[RemoteFile]:
        """All files of a repository, with digests where they are stored by digest."""
        from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

        self.require_answer()
        api = self._library.HfApi(endpoint=self._endpoint)
        try:
            info = api.model_info(repo, files_metadata=True, timeout=_LIST_SECONDS)
        except GatedRepoError as error:
            raise SourceUnavailable(
                f"hf.co/{repo} wants its terms accepted first.",
                hint="Accept them on its page, then set HF_TOKEN.",
            ) from error
        except RepositoryNotFoundError as error:
            raise ModelNotFound(
                f"There is no repository {repo} on the hub, or it is private.",
                hint="Check the spelling; for a private one set HF_TOKEN.",
            ) from error
        except Exception as error:  # its transport changed between releases, and so did the errors
            raise SourceUnavailable(f"The hub cannot list hf.co/{repo}: {error}.") from error
        return [
            RemoteFile(sibling.rfilename, sibling.size, sibling.lfs.sha256 if sibling.lfs else None)
            for sibling in info.siblings or ()
        ]

    def require_answer(self) -> None:
        """Raise `SourceUnavailable` within seconds where nobody can be reached.

        A connection to a host with many addresses tries one after another, each with its own
        timeout; on a network that drops packets that is a minute of nothing.
        """
        if self._offline:
            raise SourceUnavailable("The hub is switched off by HF_HUB_OFFLINE.")
        parts = urlsplit(self._endpoint)
        host = parts.hostname or ""
        if urllib.request.getproxies().get(parts.scheme) and not urllib.request.proxy_bypass(host):
            return
        port = parts.port or (443 if parts.scheme == "https" else 80)
        reason = _probe(host, port)
        if reason is not None:
            raise SourceUnavailable(
                f"The hub ({host}) cannot be reached: {reason}.",
                hint="Check the connection and pull again.",
            )


def _probe(host: str, port: int) -> str | None:
    """Why a connection failed, or None; in a thread, as nothing interrupts resolving a name."""
    outcome: list[str | None] = []

    def connect() -> None:
        try:
            socket.create_connection((host, port), _PROBE_SECONDS).close()
        except OSError as error:
            outcome.append(error.strerror or str(error))
        else:
            outcome.append(None)

    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(_PROBE_SECONDS)
    return outcome[0] if outcome else f"no answer within {_PROBE_SECONDS} seconds"
