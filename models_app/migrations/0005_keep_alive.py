"""A model may stay loaded for another time than all."""

import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("models_app", "0004_pulls"),
    ]

    operations = [
        migrations.AddField(
            model_name="languagemodel",
            name="keep_alive",
            field=models.IntegerField(
                blank=True,
                help_text="Seconds that it stays loaded after its last use, in the place of the service's setting; "
                "0 unloads it at once, -1 never.",
                null=True,
                validators=[
                    django.core.validators.MinValueValidator(-1),
                    django.core.validators.MaxValueValidator(31622400),
                ],
            ),
        ),
    ]
