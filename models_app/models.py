"""TABLE models: metadata and content digests of the model files, which stay outside the database."""

from pathlib import Path

from django.conf import settings
from django.db import models


class LanguageModel(models.Model):
    """A model file that tasks can name."""

    id = models.CharField(primary_key=True, max_length=200)
    engine = models.CharField(max_length=20, default="llamacpp")
    file = models.CharField(max_length=255, unique=True, help_text="Path inside the directory models/.")
    format = models.CharField(max_length=20, default="gguf")
    digest = models.CharField(max_length=71, help_text="sha256: and 64 hexadecimal digits.")
    size_bytes = models.BigIntegerField()
    architecture = models.CharField(max_length=50, blank=True)
    trained_context_length = models.PositiveIntegerField(help_text="Tokens, as the file states it.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        db_table = "models"
        ordering = ["id"]

    def __str__(self) -> str:
        return self.id

    @property
    def path(self) -> Path:
        """Where the file lies now; the data directory may have been moved."""
        return Path(settings.LMSP.models_dir) / self.file

    @property
    def context_length(self) -> int:
        """Tokens of prompt and output together that one task can have."""
        return min(self.trained_context_length, settings.LMSP.context_length)
