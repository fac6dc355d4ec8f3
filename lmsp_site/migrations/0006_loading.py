"""How long models stay loaded, how many at once, in how much memory, and which are loaded at the start."""

import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("lmsp_site", "0005_quotas")]

    operations = [
        migrations.AddField(
            model_name="serviceconfig",
            name="keep_alive",
            field=models.IntegerField(
                default=3600,
                help_text="Seconds that a model stays loaded after its last use; 0 unloads it at once, -1 never.",
                validators=[
                    django.core.validators.MinValueValidator(-1),
                    django.core.validators.MaxValueValidator(366 * 86400),
                ],
            ),
        ),
        migrations.AddField(
            model_name="serviceconfig",
            name="max_loaded",
            field=models.PositiveIntegerField(
                default=0,
                help_text="Models that are loaded at once, at most; the one idle longest makes room. 0 means no limit.",
                validators=[django.core.validators.MaxValueValidator(1000)],
            ),
        ),
        migrations.AddField(
            model_name="serviceconfig",
            name="engine_memory_mb",
            field=models.PositiveIntegerField(
                default=0,
                help_text="Megabytes that all loaded models may need together, at most; 0 means what the machine has.",
            ),
        ),
        migrations.AddField(
            model_name="serviceconfig",
            name="preload",
            field=models.TextField(
                blank=True,
                default="",
                help_text="Ids of models that are loaded when the service starts, one a line.",
            ),
        ),
    ]
