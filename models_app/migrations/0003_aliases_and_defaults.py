import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("models_app", "0002_files")]

    operations = [
        migrations.CreateModel(
            name="ModelAlias",
            fields=[
                ("name", models.CharField(max_length=200, primary_key=True, serialize=False)),
                (
                    "model",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="aliases",
                        to="models_app.languagemodel",
                    ),
                ),
            ],
            options={
                "verbose_name": "alias",
                "verbose_name_plural": "aliases",
                "db_table": "model_aliases",
                "ordering": ["name"],
            },
        ),
        migrations.AddField(
            "languagemodel",
            "sampling",
            models.JSONField(
                blank=True, default=dict, help_text="What a request means that does not say how to sample."
            ),
        ),
        migrations.AddField(
            "languagemodel",
            "max_context_length",
            models.PositiveIntegerField(
                blank=True,
                help_text="Tokens, in the place of LMSP_CONTEXT_LENGTH; at most what it was trained for.",
                null=True,
            ),
        ),
    ]
