"""Models that lie inside ``models/`` already, registered where they are: nothing is copied, moved or renamed."""

import os
from collections.abc import Callable, Sequence

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from lmsp_site import audit_log, data_dir
from lmsp_site.audit_log import Action, Actor
from models_app import digests, importing, inspecting, naming, shelf
from models_app.digests import FileEntry, OnBytes, Stamp
from models_app.models import LanguageModel
from models_app.refusals import CannotRegister
from models_app.sources import Source


def register(
    name: str,
    model_id: str,
    *,
    actor: Actor,
    aliases: Sequence[str] = (),
    on_start: Callable[[int], OnBytes] = lambda _total: digests.ignore,
) -> LanguageModel:
    """Register what is called `name` inside ``models/`` as `model_id`, by the checks that a copy goes through.

    Args:
        name: as ``shelf.unregistered`` lists it.
        model_id: what requests will name.
        actor: who asks for it.
        aliases: what they may name as well.
        on_start: told how many bytes there are to read, before they are; returns what is told of each piece.

    Raises:
        CannotRegister: see its message.
    """
    check(name, model_id)
    naming.check_aliases(LanguageModel(id=model_id), aliases)
    candidate = shelf.find(name)
    source = candidate.source
    try:
        stamps = _stamps(source)
        metadata = inspecting.inspect(source.path.name, source.to_inspect)
        read = _read(source, on_start(candidate.size))
    except OSError as error:
        raise CannotRegister(f"{name} cannot be read: {error.strerror}.") from error
    # The digest is that of a copy, which calls the parts of a split model by names of its own.
    digest = digests.of_manifest(read)
    files = [{**entry, "name": source.files[entry["name"]].name} for entry in read]
    model = LanguageModel(
        id=model_id,
        file=name,
        digest=digest,
        size_bytes=sum(entry["size"] for entry in read),
        files=files,
        stamps=stamps,
        checked_at=timezone.now(),
        **metadata,
    )
    # From the look at the names to the row that takes them, as for a copy.
    with data_dir.exclusive(settings.LMSP.run_dir / "models.lock"):
        check(name, model_id)
        if model.stamps_now() != stamps or [stamp[0] for stamp in stamps] != [entry["size"] for entry in read]:
            raise CannotRegister(f"{name} was written to while it was read. Try again when it is whole.")
        with transaction.atomic():
            model.save(force_insert=True)
            audit_log.record(actor, Action.CREATED, model, digest=digest, file=name)
            naming.add_aliases(model, aliases)
    return model


def check(name: str, model_id: str) -> None:
    """Refuse at once what is refused without a look into the files.

    Raises:
        CannotRegister: the id cannot be or is taken, or nothing of that name lies there.
    """
    importing.check_id(model_id)
    naming.require_free(model_id)
    if LanguageModel.objects.filter(pk=model_id).exists():
        raise CannotRegister(f"The id {model_id} is taken by another model; choose another id.")
    shelf.find(name)


def _stamps(source: Source) -> list[Stamp]:
    return [digests.stamp(file) for file in source.files.values()]


def _read(source: Source, on_bytes: OnBytes) -> list[FileEntry]:
    read: list[FileEntry] = []
    for name, file in source.files.items():
        size = file.stat().st_size
        read.append({"name": name, "size": size, "sha256": digests.of_file(file, on_bytes)})
        _sync(file)
    return read


def _sync(file: os.PathLike[str]) -> None:
    # Who has put it there may have left it to the kernel to write it down, and the row is written down now.
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
