"""What a failed task's error code means to an operator, and what can be done."""

_MEMORY = "Lower LMSP_CONTEXT_LENGTH or LMSP_MAX_RUNNING where memory is short."
_MEANINGS = {
    "server_restarted": "The service ended before the task had finished, and its policy is `fail`: `tasks rerun` "
    "starts it anew. With on_restart `retry` or `resume` it would have gone on by itself.",
    "worker_died": "A worker process was killed (the kernel's log tells whether for memory), and the policy is `fail`.",
    "engine_died": "The engine's process was killed or crashed, and the policy is `fail`. The service's log has the "
    f"signal. {_MEMORY}",
    "engine_silent": "The engine lived and did not go on with this task for LMSP_ENGINE_SILENCE seconds, and the "
    "policy is `fail`. Where its steps are that slow, raise it.",
    "expired": "It had not finished by its `expires_at`: it waited for others, or took longer than its client thought.",
    "too_many_attempts": "Worker or engine died again and again before there was any progress. The log has each end; "
    "`max_attempts` in the admin is the limit.",
    "model_not_found": "The model was registered when the task was accepted, and is not any more.",
    "model_file_missing": "The model's file is not in models/ any more: `add_model` with the same id puts it back.",
    "model_digest_mismatch": "The model's files are not what was registered: put them back and run `verify_models`, or "
    "register them again with `add_model`.",
    "engine_crashed": "The engine crashed while it loaded the model: its file is damaged, or of a kind that the engine "
    "does not know. After three times in a row the model is left alone for a while, unless its file changes.",
    "engine_unavailable": "This machine cannot run the model's engine; `/readyz` and the admin say why.",
    "insufficient_memory": f"The model needs more memory than there is, or than `engine_memory_mb` allows. {_MEMORY}",
    "model_load_failed": "The engine could not load the model's file; the service's log says why.",
    "context_not_created": f"There was no memory for the context. {_MEMORY}",
    "engine_not_installed": "The model's engine is not installed in this environment.",
    "unknown_engine": "The model is registered for an engine that this version does not have.",
    "unloaded": "The model was unloaded while the task waited for it.",
    "context_length_exceeded": "The prompt does not fit into the context that the engine was started with.",
    "engine_error": "The engine could not decode. It lives; `tasks rerun` tells whether the fault has passed.",
    "internal_error": "A fault of the service itself; its log has the traceback beside the task's id.",
}


def of(code: str) -> str:
    """Return what is known of an error code; nothing for one that is not known."""
    return _MEANINGS.get(code, "")
