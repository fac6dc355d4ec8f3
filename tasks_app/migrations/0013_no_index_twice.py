"""The indexes of the columns ``client_id`` alone go: others begin with that column.

By their names, since Django would write both tables anew for it, and lose their triggers.
"""

import django.db.models.deletion
from django.db import migrations, models

_INDEXES = {"tasks": "tasks_client_id_aa9c541c", "idempotency_keys": "idempotency_keys_client_id_b3cf5309"}


class Migration(migrations.Migration):
    dependencies = [
        ("clients_app", "0001_initial"),
        ("tasks_app", "0012_minutes"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(
                    f"DROP INDEX IF EXISTS {name}",
                    f"CREATE INDEX {name} ON {table} (client_id)",
                )
                for table, name in _INDEXES.items()
            ],
            state_operations=[
                migrations.AlterField(
                    model_name="task",
                    name="client",
                    field=models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="tasks",
                        to="clients_app.client",
                    ),
                ),
                migrations.AlterField(
                    model_name="idempotencykey",
                    name="client",
                    field=models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="idempotency_keys",
                        to="clients_app.client",
                    ),
                ),
            ],
        ),
    ]
