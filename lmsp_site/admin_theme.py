"""How the admin looks: settings of django-unfold."""

from typing import Any

UNFOLD: dict[str, Any] = {
    "SITE_TITLE": "LMSP service",
    "SITE_HEADER": "LMSP service",
    "SITE_SYMBOL": "neurology",
    # There is no other site to return to.
    "SITE_URL": None,
    "SHOW_HISTORY": False,
    "SHOW_VIEW_ON_SITE": False,
    "SHOW_BACK_BUTTON": True,
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": "/static/lmsp_site/icon.svg"}],
    "STYLES": ["/static/lmsp_site/console.css"],
    "SCRIPTS": ["/static/lmsp_site/expressions.js"],
    "COMMAND": {
        "search_models": False,
        "show_history": False,
        "search_callback": "tasks_app.admin.palette.find",
    },
    "SIDEBAR": {"show_search": True, "command_search": True, "navigation": "lmsp_site.admin_menu.navigation"},
}
