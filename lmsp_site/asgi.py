"""The ASGI application: back-pressure and general refusals first, then websockets, calls that wait, and Django."""

import gc
import os
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "lmsp_site.settings")

import django

django.setup(set_prefix=False)

from channels.routing import ProtocolTypeRouter
from django.conf import settings
from django.db import connections

from lmsp_site.asgi_http import Receive, Scope, Send
from lmsp_site.backpressure import Paced
from lmsp_site.django_handler import Handler
from lmsp_site.hosts import KnownHosts
from lmsp_site.limits import Limits
from lmsp_site.origins import CrossOrigin
from lmsp_site.proxies import TrustedProxies
from lmsp_site.response_headers import ResponseHeaders
from tasks_app.urls import streaming_app, websocket_urlpatterns

# A caller is told within this time that the database is locked; workers can wait longer.
connections["default"].settings_dict["OPTIONS"]["timeout"] = 5

django_app = Handler()


async def http(scope: Scope, receive: Receive, send: Send) -> None:
    """Give calls that wait to their apps and everything else to Django."""
    app: Any = streaming_app(scope) or django_app
    await app(scope, receive, send)


routes = ProtocolTypeRouter({"http": http, "websocket": websocket_urlpatterns})
# A refusal has the headers of every other answer, and a page that is allowed can read why its body was too long.
guarded = TrustedProxies(ResponseHeaders(KnownHosts(CrossOrigin(Limits(routes)))))
application = Paced(guarded, settings.LMSP.slow_reader_seconds)

# What is loaded now stays: the collector would hold up all streams while it walks through it.
gc.collect()
gc.freeze()
