"""Install the triggers that protect unfinished tasks."""

from django.db import migrations

from tasks_app import guards


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0001_initial")]

    operations = [migrations.RunPython(guards.install, guards.drop)]
