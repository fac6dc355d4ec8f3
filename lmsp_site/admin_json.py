"""JSON on pages that only show: indented, without colours.

The theme colours it where Pygments happens to be installed, by a style at each word, and our policy allows none.
"""

import json
from typing import Any

import unfold.fields
from django.utils.html import format_html
from django.utils.safestring import SafeString


def shown(data: Any, encoder: Any) -> SafeString:
    """Return `data` as it is shown."""
    return format_html('<pre class="json">{}</pre>', json.dumps(data, indent=2, ensure_ascii=False, cls=encoder))


def take_over() -> None:
    """Have the theme show it so, whatever is installed."""
    unfold.fields.prettify_json = shown
