"""TABLE models: metadata and content digests of the model files, which stay outside the database."""

from pathlib import Path

from django.conf import settings
from django.db import models

from lmsp_site.models import KEEP_ALIVE_BOUNDS
from models_app import digests
from models_app.digests import Stamp


class FileState(models.TextChoices):
    """What is known of a model's files."""

    READY = "ready", "as registered"
    CORRUPT = "corrupt", "not what was registered"
    MISSING = "missing"


class LanguageModel(models.Model):
    """A model that tasks can name: one file, or several in a folder."""

    id = models.CharField(primary_key=True, max_length=200)
    engine = models.CharField(max_length=20, default="llamacpp")
    file = models.CharField(max_length=255, unique=True, help_text="Path inside the directory models/.")
    format = models.CharField(max_length=20, default="gguf")
    digest = models.CharField(max_length=71, help_text="sha256: and 64 hexadecimal digits.")
    size_bytes = models.BigIntegerField()
    architecture = models.CharField(max_length=50, blank=True)
    parameter_count = models.BigIntegerField(default=0)
    quantization = models.CharField(max_length=200, blank=True)
    license = models.CharField(max_length=200, blank=True)
    base_model = models.CharField(max_length=200, blank=True)
    has_chat_template = models.BooleanField(default=True)
    trained_context_length = models.PositiveIntegerField(help_text="Tokens, as the file states it.")
    files = models.JSONField(
        default=list, help_text="Name, size in bytes and SHA-256 of each, as they were registered."
    )
    stamps = models.JSONField(
        default=list, help_text="Size, time of change and inode of each, as they were when they were last compared."
    )
    file_state = models.CharField(max_length=7, choices=FileState, default=FileState.READY)
    checked_at = models.DateTimeField(null=True, help_text="When the files were last compared with the digest.")
    created_at = models.DateTimeField(auto_now_add=True)
    sampling = models.JSONField(
        default=dict, blank=True, help_text="What a request means that does not say how to sample."
    )
    max_context_length = models.PositiveIntegerField(
        null=True, blank=True, help_text="Tokens, in the place of LMSP_CONTEXT_LENGTH; at most what it was trained for."
    )
    keep_alive = models.IntegerField(
        null=True,
        blank=True,
        validators=KEEP_ALIVE_BOUNDS,
        help_text="Seconds that it stays loaded after its last use, in the place of the service's setting; "
        "0 unloads it at once, -1 never.",
    )

    class Meta:
        db_table = "models"
        ordering = ["id"]

    def __str__(self) -> str:
        return self.id

    @property
    def path(self) -> Path:
        """What an engine opens: a file, the first of several, or a folder. The data directory may have been moved."""
        return Path(settings.LMSP.models_dir) / self.file

    @property
    def folder(self) -> Path:
        """Where its files lie."""
        return self.path if self.format != "gguf" else self.path.parent

    @property
    def paths(self) -> list[Path]:
        """Where each of its files lies, in the order of ``files``."""
        if len(self.files) == 1:
            return [self.path]
        return [self.folder / entry["name"] for entry in self.files]

    @property
    def context_length(self) -> int:
        """Tokens of prompt and output together that one task can have."""
        wanted: int = self.max_context_length or settings.LMSP.context_length
        return min(self.trained_context_length or wanted, wanted)

    @property
    def engine_key(self) -> str:
        """What a loaded engine is found by: models of one content and one context share it."""
        return f"{self.digest}:{self.max_context_length}" if self.max_context_length else self.digest

    def stamps_now(self) -> list[Stamp] | None:
        """Return what ``stamps`` would be now; ``None`` where a file is missing, or leads out of ``models/``."""
        root = Path(settings.LMSP.models_dir).resolve()
        try:
            if not all(path.resolve(strict=True).is_relative_to(root) for path in self.paths):
                return None
            return [digests.stamp(path) for path in self.paths]
        except (OSError, RuntimeError):
            return None


class ModelAlias(models.Model):
    """Another name of a model."""

    name = models.CharField(primary_key=True, max_length=200)
    model = models.ForeignKey(LanguageModel, on_delete=models.CASCADE, related_name="aliases")

    class Meta:
        db_table = "model_aliases"
        ordering = ["name"]
        verbose_name = "alias"
        verbose_name_plural = "aliases"

    def __str__(self) -> str:
        return self.name


class PullState(models.TextChoices):
    """How far a pull is."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"


class ModelPull(models.Model):
    """A model that somebody has asked the hub for, by the command line or in the admin."""

    source = models.CharField(
        max_length=400, help_text="REPO or REPO:FILE, such as someone/model-GGUF:model-Q4_K_M.gguf."
    )
    name = models.CharField("id", max_length=200, help_text="What requests will name.")
    revision = models.CharField(
        max_length=200, blank=True, help_text="Branch, tag or commit; the main branch otherwise."
    )
    state = models.CharField(max_length=9, choices=PullState, default=PullState.RUNNING)
    license = models.CharField(max_length=200, blank=True)
    done_bytes = models.BigIntegerField(default=0)
    total_bytes = models.BigIntegerField(default=0)
    error = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        db_table = "model_pulls"
        ordering = ["-id"]
        verbose_name = "pull"

    def __str__(self) -> str:
        return f"{self.source} as {self.name}"
