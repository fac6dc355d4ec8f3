"""Give the service its identity: the one row of service_config."""

import uuid
from typing import Any

from django.db import migrations


def create(apps: Any, _editor: object) -> None:
    apps.get_model("lmsp_site", "ServiceConfig").objects.get_or_create(pk=1, defaults={"service_id": uuid.uuid4()})


class Migration(migrations.Migration):
    dependencies = [("lmsp_site", "0001_initial")]

    operations = [migrations.RunPython(create, migrations.RunPython.noop)]
