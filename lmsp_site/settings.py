"""Django settings; what an operator may set is in ``configuration.py``."""

from lmsp_site import __version__, address, admin_theme, configuration, data_dir, logs

LMSP = configuration.from_environment()
data_dir.prepare(LMSP.data_dir)
data_dir.create_database(LMSP.database)

SECRET_KEY = data_dir.secret_key(LMSP.data_dir)
DEBUG = False
ROOT_URLCONF = "lmsp_site.urls"
ASGI_APPLICATION = "lmsp_site.asgi.application"
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "[::1]", address.in_url(LMSP.host), *LMSP.allowed_hosts]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
FORMAT_MODULE_PATH = "lmsp_site.formats"

INSTALLED_APPS = [
    "lmsp_site.apps.LmspSiteConfig",
    "clients_app",
    "models_app",
    "tasks_app",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "channels",
    "django_q",
    # The theme's templates stand before those of Django's admin.
    "unfold.apps.BasicAppConfig",
    "lmsp_site.apps.ServiceAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": LMSP.database,
        # A connection is made once for a thread; one that has failed is made again.
        "CONN_MAX_AGE": None,
        "OPTIONS": {
            # A transaction that will write takes the lock at its start: it waits there instead of failing later.
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
        },
    },
}

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

# The theme would keep what somebody has searched for, and show it when it is not so any more.
CACHES = {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}}

STATIC_URL = "/static/"
# The packages' own files, served from where they are installed: no collectstatic step.
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = False
WHITENOISE_ALLOW_ALL_ORIGINS = False

DATA_UPLOAD_MAX_MEMORY_SIZE = LMSP.max_body_bytes
X_FRAME_OPTIONS = "DENY"
SECURE_CONTENT_TYPE_NOSNIFF = True
# A page of another site takes nobody's session along. Where a connection is encrypted, by this server or by a trusted
# proxy, `response_headers` marks cookies as secure.
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Strict"
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True
LOGIN_REDIRECT_URL = "/admin/"
CSRF_FAILURE_VIEW = "lmsp_site.views.csrf_failure"
APPEND_SLASH = True
SILENCED_SYSTEM_CHECKS = [
    # Out of the box the service speaks plain HTTP to this machine alone: a redirect to HTTPS (W008), HSTS (W004) and
    # cookies for HTTPS only (W012, W016) would lock everybody out.
    "security.W004",
    "security.W008",
    "security.W012",
    "security.W016",
]

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["clients_app.authentication.BearerToken"],
    "DEFAULT_PERMISSION_CLASSES": ["clients_app.authentication.HasScope"],
    # Views read bodies with `views.json_body`: a parser is not asked about an empty one, which would pass as `{}`.
    "DEFAULT_PARSER_CLASSES": [],
    "DEFAULT_RENDERER_CLASSES": ["lmsp_site.views.ProtocolJSONRenderer"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "lmsp_site.views.exception_handler",
    "UNAUTHENTICATED_USER": None,
}

SPECTACULAR_SETTINGS = {
    "OAS_VERSION": "3.1.1",
    "TITLE": "LMSP service",
    "VERSION": __version__,
    "DESCRIPTION": "A local model service: LMSP 1.0 (draft), the Responses API and chat completions. Every call asks "
    "for a token but those of the sections Service and Pairing. Errors come in one envelope; a verb that an address "
    "does not have is answered with 405. Websockets: `/v1/events`, `/v1/responses` and `/v1/tasks/{task_id}/events`.",
    "SERVERS": [{"url": "/"}],
    "ENFORCE_NON_BLANK_FIELDS": True,
    "POSTPROCESSING_HOOKS": ["lmsp_site.openapi.document.complete"],
    # The page takes everything from this host, and shows its document to no other for validation.
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SWAGGER_UI_SETTINGS": {"deepLinking": True, "validatorUrl": None},
}

Q_CLUSTER = {
    "name": "lmsp",
    "orm": "default",
    "broker_class": "tasks_app.queue.DoorbellBroker",
    "workers": LMSP.max_running,
    "queue_limit": 1,
    # A job runs as long as its task; redelivery is recovery's business and never the broker's.
    "timeout": 10**9,
    "retry": 10**9,
    "recycle": 10**9,
    "max_attempts": 1,
    "ack_failures": True,
    "save_limit": 250,
    "label": "Job runner",
}

UNFOLD = admin_theme.UNFOLD

LOGGING = logs.configuration(LMSP.log_format, LMSP.log_level)
# It reports every job twice at INFO; what a job did is said by the task's own lines.
LOGGING["loggers"]["django-q"] = {"level": "WARNING"}
