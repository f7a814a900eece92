"""A file of a repository on the Hugging Face hub.

huggingface_hub knows the endpoint, the token and the offline switch of the user's set-up and lists
repositories; the bytes come through our own HTTP source, for progress and resume.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from ..catalog import FILE
from ..errors import ModelNotFound, Offline, SourceUnavailable, UnsupportedModel
from ..gguf.gguf_names import is_language_model, parse_shard, quantization_of
from ..gguf.projector import choose_projector, is_projector
from ..model_reference import CTRANSLATE2, SAFETENSORS
from ..safetensors.folder_files import BESIDE, CONFIG, TOKENIZER, is_weights
from ..whisper_files import FILES as WHISPER_FILES
from ..whisper_files import is_whisper
from .download_source import RemoteFile, Transfer
from .http_source import HTTPSource
from .ranged_file import RangedFile

_PROBE_SECONDS = 4
_LIST_SECONDS = 10
_PAGES = "huggingface.co"
_PREFERRED = ("Q4_K_M", "Q4_K_S", "Q4_0", "Q5_K_M", "IQ4_XS", "Q8_0", "BF16", "F16")
_PICKLE = re.compile(r".+\.(bin|pt|pth|ckpt)")


@dataclass
class HubSource:
    """One file of one repository; without `endpoint` the one that HF_ENDPOINT names."""

    repo: str
    file: str
    revision: str = "main"
    endpoint: str | None = None
    scratch_fraction = 0.0

    @property
    def label(self) -> str:
        """The repository as in references."""
        return f"hf.co/{self.repo}"

    def fetch(self, transfer: Transfer) -> None:
        """Bring the file to its end; see `Source.fetch`."""
        self._http().fetch(transfer)

    def ranges(self) -> AbstractContextManager[RangedFile]:
        """See `Source.ranges`."""
        return self._http().ranges()

    def _http(self) -> HTTPSource:
        import huggingface_hub

        endpoint = _reachable_endpoint(self.endpoint)
        token = huggingface_hub.get_token()  # from HF_TOKEN or where `hf auth login` put it
        return HTTPSource(
            huggingface_hub.hf_hub_url(
                self.repo, self.file, revision=self.revision, endpoint=endpoint
            ),
            headers={"Authorization": f"Bearer {token}"} if token else None,
            label=self.label,
            refusals=_refusals(self.repo, with_token=bool(token)),
        )


def find_model(repo: str, tag: str | None, *, endpoint: str | None = None) -> HubModel:
    """The GGUF of a repository with this quantization, or the usual choice where it is None.

    The tag `SAFETENSORS`, or a repository without GGUF, means its safetensors. Files have digests
    if the hub stores them by digest. Raises `SourceUnavailable`, `ModelNotFound` if the repository
    has no such model, and `UnsupportedModel` if it has none that can be run.
    """
    import huggingface_hub
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    api = huggingface_hub.HfApi(endpoint=_reachable_endpoint(endpoint))
    try:
        info = api.model_info(repo, files_metadata=True, timeout=_LIST_SECONDS)
    except GatedRepoError as error:
        sentence, hint = _refusals(repo, with_token=bool(huggingface_hub.get_token()))[403]
        raise SourceUnavailable(f"{sentence}.", hint=hint) from error
    except RepositoryNotFoundError as error:
        raise ModelNotFound(
            f"There is no repository {repo} on the hub, or it is private.",
            hint="Check the spelling; for a private one set HF_TOKEN.",
        ) from error
    except Exception as error:  # its transport changed between releases, and so did the errors
        raise SourceUnavailable(f"The hub cannot list hf.co/{repo}: {error}.") from error
    files = [
        RemoteFile(sibling.rfilename, sibling.size, sibling.lfs.sha256 if sibling.lfs else None)
        for sibling in info.siblings or ()
    ]
    licence = info.card_data.get("license") if info.card_data else None
    return replace(
        choose_model(repo, files, tag),
        revision=info.sha or "main",
        licence=licence if isinstance(licence, str) else "",
    )


def _refusals(repo: str, *, with_token: bool) -> dict[int, tuple[str, str]]:
    """What the hub's refusals mean, by status, and what to do."""
    page = f"https://{_PAGES}/{repo}"
    token = f"make a token on https://{_PAGES}/settings/tokens and set HF_TOKEN to it"
    if with_token:
        return {
            401: ("The hub does not accept your token", f"It may have expired: {token}."),
            403: (
                f"Your account may not read hf.co/{repo}",
                f"Accept its terms on {page}; some makers approve by hand, which takes a while. "
                "The token itself must be allowed to read gated repositories.",
            ),
        }
    gated = (
        f"hf.co/{repo} is only for people who have accepted its terms, or is private",
        f"Accept them on {page}, then {token} (or run `hf auth login`).",
    )
    return {401: gated, 403: gated}


def _reachable_endpoint(endpoint: str | None) -> str:
    """The address of the hub; without `endpoint` the one that HF_ENDPOINT names.

    Raises `Offline`, and `SourceUnavailable` within seconds if the host is unreachable: a
    connection to a host with many addresses tries one after another, each with its own timeout; on
    a network that drops packets that is a minute of nothing.
    """
    from huggingface_hub import constants

    # Its telemetry adds facts about the machine to every request; ours sends none. The variable of
    # that name counts only if the library has not been imported before.
    constants.HF_HUB_DISABLE_TELEMETRY = True
    endpoint = (endpoint or constants.ENDPOINT).rstrip("/")
    if constants.HF_HUB_OFFLINE:
        raise Offline(
            "The hub is switched off by HF_HUB_OFFLINE, so nothing was asked.",
            hint="Unset the variable, stop the daemon with `ingle stop`, and pull again.",
        )
    import urllib.request

    parts = urlsplit(endpoint)
    host = parts.hostname or ""
    if urllib.request.getproxies().get(parts.scheme) and not urllib.request.proxy_bypass(host):
        return endpoint
    port = parts.port or (443 if parts.scheme == "https" else 80)
    reason = _probe(host, port)
    if reason is not None:
        raise SourceUnavailable(
            f"The hub ({host}) cannot be reached: {reason}.",
            hint="Check the connection and pull again.",
        )
    return endpoint


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


@dataclass(frozen=True, slots=True)
class HubModel:
    """The files of one model of a repository; `tag` tells it from the others.

    `paths` are the files' places in the repository at `revision`; `licence` is what its card says.
    The last file is the `projector`, if there is one.
    """

    tag: str
    files: tuple[RemoteFile, ...]
    paths: tuple[str, ...]
    revision: str = "main"
    licence: str = ""
    projector: str = ""


def choose_model(repo: str, files: Sequence[RemoteFile], tag: str | None) -> HubModel:
    """Pick among a repository's files by their names; see `find_model`."""
    models = _by_quantization(files)
    if tag == CTRANSLATE2 or (tag is None and is_whisper({file.name for file in files})):
        chosen = tuple(file for file in files if file.name in WHISPER_FILES)
        if is_whisper({file.name for file in chosen}):
            return HubModel(CTRANSLATE2, chosen, tuple(file.name for file in chosen))
    if tag == SAFETENSORS or (tag is None and not models):
        return choose_safetensors(repo, files)
    for name in (tag,) if tag else (*_PREFERRED, *models):
        if name in models:
            paths = models[name]
            projector = _projector_of(paths[0].name, files)
            paths = [*paths, *([] if projector is None else [projector])]
            chosen = tuple(replace(file, name=_base(file.name)) for file in paths)
            return HubModel(
                name,
                chosen,
                tuple(file.name for file in paths),
                projector="" if projector is None else chosen[-1].name,
            )
    known = ", ".join(sorted(models)) or "none in GGUF"
    raise ModelNotFound(f"hf.co/{repo} has no {tag}.", hint=f"It has: {known}.")


def _by_quantization(files: Sequence[RemoteFile]) -> dict[str, list[RemoteFile]]:
    """The GGUF models of a repository, each with all its parts in order."""
    by_path = {file.name: file for file in files}
    found: dict[str, list[RemoteFile]] = {}
    # Files at the top come first: folders may repeat them.
    for path in sorted(by_path, key=lambda path: (path.count("/"), path)):
        shard = parse_shard(_base(path))
        if not is_language_model(path) or not FILE.fullmatch(_base(path)):
            continue
        if shard is None:
            found.setdefault(quantization_of(path), [by_path[path]])
        elif shard.number == 1:
            folder = path.removesuffix(_base(path))
            parts = [by_path.get(folder + name) for name in shard.names()]
            whole = [part for part in parts if part is not None]
            if len(whole) == shard.count:
                found.setdefault(quantization_of(path), whole)
    return found


def _projector_of(model: str, files: Sequence[RemoteFile]) -> RemoteFile | None:
    """The projector in the model's folder of the repository, or else at its top."""
    for folder in dict.fromkeys((model.removesuffix(_base(model)), "")):
        near = {_base(f.name): f for f in files if f.name == folder + _base(f.name)}
        # Other models do not matter: most repositories have one, in several quantizations.
        usable = [name for name in near if FILE.fullmatch(name) and is_projector(name)]
        if name := choose_projector(_base(model), [*usable, _base(model)]):
            return near[name]
    return None


def _base(path: str) -> str:
    return path.rpartition("/")[2]


def choose_safetensors(repo: str, files: Sequence[RemoteFile]) -> HubModel:
    """A repository's safetensors with what describes them: small files first, then the weights.

    Raises as `find_model`.
    """
    names = {file.name for file in files}
    if adapter := names & {"adapter_config.json"}:
        raise UnsupportedModel(
            f"hf.co/{repo} holds an adapter ({adapter.pop()}), not a model.",
            hint="Download it, and add it to its model: `ingle adapter add MODEL FOLDER`.",
        )
    weights = [file for file in files if is_weights(file.name)]
    if not weights and any(_PICKLE.fullmatch(name) for name in names):
        raise UnsupportedModel(
            f"hf.co/{repo} has its weights in a pickle, which could run any code.",
            hint="Look for an edition in GGUF or safetensors.",
        )
    if not weights:
        raise ModelNotFound(
            f"hf.co/{repo} has neither GGUF files nor safetensors.",
            hint="Look for a repository whose name ends in GGUF.",
        )
    for name in (CONFIG, TOKENIZER):
        if name not in names:
            raise UnsupportedModel(
                f"hf.co/{repo} has safetensors but no {name}.",
                hint="Look for an edition in GGUF.",
            )
    if len(weights) > 1:  # some repositories have the model whole beside its parts
        weights = [file for file in weights if file.name != "model.safetensors"] or weights
    beside = sorted((f for f in files if f.name in BESIDE), key=lambda f: f.name != CONFIG)
    chosen = (*beside, *sorted(weights, key=lambda file: file.name))
    return HubModel(SAFETENSORS, chosen, tuple(file.name for file in chosen))
