"""Failed attempts to sign in to the admin."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("lmsp_site", "0003_audit_log")]

    operations = [
        migrations.CreateModel(
            name="LoginAttempt",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("user_digest", models.CharField(max_length=64)),
                ("at", models.DateTimeField(db_index=True)),
            ],
            options={"db_table": "login_attempts"},
        ),
    ]
