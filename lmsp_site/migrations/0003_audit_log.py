"""The audit log, and the triggers that keep it as it was written."""

import django.core.serializers.json
from django.db import migrations, models

from lmsp_site import audit_log


class Migration(migrations.Migration):
    dependencies = [("lmsp_site", "0002_service_identity")]

    operations = [
        migrations.CreateModel(
            name="AuditEntry",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField(auto_now_add=True, db_index=True)),
                (
                    "actor_kind",
                    models.CharField(
                        choices=[("admin", "admin user"), ("command", "command line"), ("client", "Client")],
                        max_length=7,
                    ),
                ),
                ("actor", models.CharField(max_length=200)),
                ("address", models.CharField(blank=True, max_length=64)),
                (
                    "action",
                    models.CharField(
                        choices=[
                            ("created", "Created"),
                            ("paired", "Paired"),
                            ("approved", "Approved"),
                            ("denied", "Denied"),
                            ("changed", "Changed"),
                            ("scopes_changed", "Scopes Changed"),
                            ("rotated", "Rotated"),
                            ("revoked", "Revoked"),
                            ("deleted", "Deleted"),
                        ],
                        max_length=14,
                    ),
                ),
                ("subject_kind", models.CharField(max_length=50)),
                ("subject_id", models.CharField(max_length=200)),
                ("subject", models.CharField(max_length=200)),
                (
                    "detail",
                    models.JSONField(default=dict, encoder=django.core.serializers.json.DjangoJSONEncoder),
                ),
            ],
            options={
                "verbose_name": "audit log entry",
                "verbose_name_plural": "audit log",
                "db_table": "audit_log",
                "ordering": ["-id"],
            },
        ),
        migrations.RunPython(audit_log.GUARDS.install, audit_log.GUARDS.drop),
    ]
