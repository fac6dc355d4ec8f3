"""By which names requests find a model: its id and its aliases, each of which means one model."""

import re
from collections.abc import Collection

from lmsp_site import rows
from models_app.models import LanguageModel, ModelAlias
from models_app.refusals import CannotRegister

_NAMED = "id = %s OR id = (SELECT model_id FROM model_aliases WHERE name = %s)"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,199}")


def is_name(name: str) -> bool:
    """Tell whether a model can be called that."""
    return _NAME.fullmatch(name) is not None and ".." not in name


def find(name: str) -> LanguageModel | None:
    """Return the model that has `name` as its id, or else as an alias."""
    found = rows.select(LanguageModel, _NAMED, (name, name))
    return min(found, key=lambda model: model.id != name, default=None)


def aliases_of(model: LanguageModel) -> list[str]:
    """Return its other names, as they are stored now, in their order."""
    return sorted(model.aliases.values_list("name", flat=True))


def require_free(model_id: str) -> None:
    """Refuse an id that is another model's alias."""
    if alias := ModelAlias.objects.filter(pk=model_id).first():
        raise CannotRegister(f"{model_id} is an alias of {alias.model_id}; choose another id.")


def check_aliases(model: LanguageModel, names: Collection[str]) -> None:
    """Refuse names that cannot be aliases of `model`.

    Raises:
        CannotRegister: one of them is no name, or means something else.
    """
    for name in names:
        if not is_name(name):
            raise CannotRegister(f"The alias {name!r} cannot be: it has letters, digits and . _ : / - only.")
        if name == model.id or LanguageModel.objects.filter(pk=name).exists():
            raise CannotRegister(f"The alias {name} is the id of a model; choose another.")
        if taken := ModelAlias.objects.filter(pk=name).exclude(model=model).first():
            raise CannotRegister(f"The alias {name} is that of {taken.model_id}; choose another.")


def add_aliases(model: LanguageModel, names: Collection[str]) -> None:
    """Let requests name `model` by these names, too; part of the transaction that stores the model.

    Raises:
        CannotRegister: as ``check_aliases`` does.
    """
    check_aliases(model, names)
    for name in names:
        ModelAlias.objects.get_or_create(name=name, defaults={"model": model})


def set_aliases(model: LanguageModel, names: Collection[str]) -> None:
    """Let requests name `model` by these names and no others beside its id."""
    add_aliases(model, names)
    ModelAlias.objects.filter(model=model).exclude(pk__in=names).delete()
