"use strict";
{# The library's own script hands out a CSRF cookie, which no call of this API asks for. #}
SwaggerUIBundle({
  url: "{{ schema_url|escapejs }}",
  dom_id: "#swagger-ui",
  presets: [SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
  ...{{ settings|safe }},
});
