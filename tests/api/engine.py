"""What the engine of a running service is doing, asked over its own socket."""

from typing import Any

from models_app.engines.client import HostClient, engine_info
from tests.service import MODEL, Service


def info(service: Service) -> dict[str, Any]:
    """Return the figures of the engine that has the demo model loaded."""
    (digest,) = service.sql("SELECT digest FROM models WHERE id = ?", MODEL)[0]
    address = HostClient(service.data_dir / "run").find(digest)
    assert address is not None, "the demo model is not loaded"
    return engine_info(address)


def computes(service: Service) -> bool:
    """Tell whether the engine works for anybody."""
    figures = info(service)
    return bool(figures["busy_slots"] or figures["waiting"])
