from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("clients_app", "0002_pairing")]

    operations = [
        migrations.AddField(
            model_name="client",
            name="expires_at",
            field=models.DateTimeField(
                blank=True, help_text="From then on the client is refused, in UTC; empty: never.", null=True
            ),
        ),
        migrations.AddField(
            model_name="client",
            name="last_used_at",
            field=models.DateTimeField(
                blank=True,
                editable=False,
                help_text="When a call last came with its token, to the minute.",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="client",
            name="previous_token_hash",
            field=models.CharField(blank=True, db_index=True, editable=False, max_length=64, null=True),
        ),
        migrations.AddField(
            model_name="client",
            name="previous_token_until",
            field=models.DateTimeField(
                blank=True,
                editable=False,
                help_text="Until then the token before this one is good, too.",
                null=True,
            ),
        ),
    ]
