"""The stored response is the one of the terminal event; it was in ``responses.body`` a second time."""

from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.models import OuterRef, Q, Subquery
from django.db.models.fields.json import KT


def keep_reasons(apps: migrations.state.StateApps, _editor: BaseDatabaseSchemaEditor) -> None:
    """Note why a completed task's response is incomplete, which its list entry tells."""
    tasks = apps.get_model("tasks_app", "Task").objects.filter(status="completed")
    responses = apps.get_model("tasks_app", "Response").objects
    reason = responses.filter(task=OuterRef("pk")).values(reason=KT("body__incomplete_details__reason"))
    tasks.update(incomplete_reason=Subquery(reason[:1]))


class Migration(migrations.Migration):
    dependencies = [
        ("clients_app", "0001_initial"),
        ("tasks_app", "0004_expires_at"),
    ]

    operations = [
        migrations.AddField(
            model_name="task",
            name="incomplete_reason",
            field=models.CharField(
                blank=True, help_text="Why a completed task's response is incomplete.", max_length=60, null=True
            ),
        ),
        migrations.RunPython(keep_reasons, migrations.RunPython.noop),
        migrations.RemoveField(
            model_name="response",
            name="body",
        ),
        migrations.RemoveIndex(
            model_name="task",
            name="tasks_by_claim_order",
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=Q(("finished_at__isnull", True)),
                fields=["status", "priority", "id"],
                name="unfinished_by_claim_order",
            ),
        ),
        migrations.AddIndex(
            model_name="task",
            index=models.Index(
                condition=Q(("finished_at__isnull", False)),
                fields=["client", "status", "-id"],
                name="finished_tasks_of_client",
            ),
        ),
    ]
