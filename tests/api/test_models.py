"""GET /v1/models and /v1/models/{id}."""

import hashlib
from pathlib import Path

import pytest

from tests.api.bodies import body, error
from tests.service import MODEL, Service

SLASHED = "someone/smollm2:135m"


@pytest.fixture(scope="module")
def slashed(service: Service, model_path: Path) -> str:
    """The demo model once more, under an id with a slash in it."""
    assert service.manage("add_model", str(model_path), "--id", SLASHED)["id"] == SLASHED
    return SLASHED


def test_the_list_has_every_model_with_what_is_known_of_it(service: Service, slashed: str, model_path: Path) -> None:
    found = service.request("GET", "/v1/models").json()
    assert found["object"] == "list"
    assert found["has_more"] is False
    ids = [model["id"] for model in found["data"]]
    assert {MODEL, slashed} <= set(ids)
    assert (found["first_id"], found["last_id"]) == (ids[0], ids[-1])
    digest = hashlib.sha256(model_path.read_bytes()).hexdigest()
    for model in found["data"]:
        if model["id"] in (MODEL, slashed):
            assert (
                model
                | {
                    "object": "model",
                    "digest": f"sha256:{digest}",
                    "size_bytes": model_path.stat().st_size,
                    "format": "gguf",
                    "engine": "llamacpp",
                }
                == model
            )
            assert isinstance(model["created"], int)
            assert model["context_length"] >= 128
            assert isinstance(model["owned_by"], str)


@pytest.mark.parametrize("model_id", [MODEL, SLASHED, SLASHED.replace("/", "%2F")])
def test_a_model_is_found_by_its_id_with_slashes_too(service: Service, slashed: str, model_id: str) -> None:
    model = service.request("GET", f"/v1/models/{model_id}").json()
    listed = service.request("GET", "/v1/models").json()["data"]
    assert model in listed
    assert model["id"] == model_id.replace("%2F", "/")


def test_a_model_with_a_slash_generates(service: Service, slashed: str) -> None:
    request = body("Hi", model=slashed)
    said = [
        service.request("POST", "/v1/responses", json=request | {"model": name}).json() for name in (slashed, MODEL)
    ]
    assert [response["model"] for response in said] == [slashed, MODEL]
    assert said[0]["output"][0]["content"] == said[1]["output"][0]["content"]
    assert service.request("GET", f"/v1/models/{slashed}").json()["state"] == "ready"


@pytest.mark.parametrize("model_id", ["unknown", "someone/else", "%2e%2e", "%00", "a" * 500, SLASHED + "/"])
def test_an_unknown_model_is_404(service: Service, slashed: str, model_id: str) -> None:
    found = error(service.request("GET", f"/v1/models/{model_id}"), 404)
    assert (found["code"], found["param"]) == ("model_not_found", "model")
