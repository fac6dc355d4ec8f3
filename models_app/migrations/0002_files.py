from pathlib import Path
from typing import Any

from django.db import migrations, models


def fill_files(apps: Any, schema_editor: Any) -> None:  # noqa: ARG001
    """A model of earlier versions is one file, whose digest is that of the model; it is compared at its next load."""
    language_model = apps.get_model("models_app", "LanguageModel")
    for model in language_model.objects.all():
        model.files = [
            {"name": Path(model.file).name, "size": model.size_bytes, "sha256": model.digest.removeprefix("sha256:")}
        ]
        model.save(update_fields=["files"])


class Migration(migrations.Migration):
    dependencies = [("models_app", "0001_initial")]

    operations = [
        migrations.AddField("languagemodel", "parameter_count", models.BigIntegerField(default=0)),
        migrations.AddField(
            "languagemodel",
            "quantization",
            models.CharField(blank=True, default="", max_length=200),
            preserve_default=False,
        ),
        migrations.AddField(
            "languagemodel", "license", models.CharField(blank=True, default="", max_length=200), preserve_default=False
        ),
        migrations.AddField(
            "languagemodel",
            "base_model",
            models.CharField(blank=True, default="", max_length=200),
            preserve_default=False,
        ),
        migrations.AddField("languagemodel", "has_chat_template", models.BooleanField(default=True)),
        migrations.AddField(
            "languagemodel",
            "files",
            models.JSONField(
                default=list, help_text="Name, size in bytes and SHA-256 of each, as they were registered."
            ),
        ),
        migrations.AddField(
            "languagemodel",
            "stamps",
            models.JSONField(
                default=list,
                help_text="Size, time of change and inode of each, as they were when they were last compared.",
            ),
        ),
        migrations.AddField(
            "languagemodel",
            "file_state",
            models.CharField(
                choices=[("ready", "as registered"), ("corrupt", "not what was registered"), ("missing", "Missing")],
                default="ready",
                max_length=7,
            ),
        ),
        migrations.AddField(
            "languagemodel",
            "checked_at",
            models.DateTimeField(help_text="When the files were last compared with the digest.", null=True),
        ),
        migrations.RunPython(fill_files, migrations.RunPython.noop),
    ]
