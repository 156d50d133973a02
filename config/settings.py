"""This room turns the environment into Django's settings; nothing else reads the environment for them."""

import logging
import os
import sys
from pathlib import Path

from access.rest.settings import REST_FRAMEWORK, SPECTACULAR_SETTINGS  # noqa: F401  (settings are read by name)
from config import environment, log_lines
from kafkaserver.authorities import refuse_unusable_authorities
from muster.kernel.addresses import is_loopback

BASE_DIR = Path(__file__).resolve().parent.parent
PROCESS_ROLE = environment.process_role(sys.argv)
IS_A_TOOL = PROCESS_ROLE == "tool" and Path(sys.argv[0]).name == "manage.py"
_told = environment.reader(environment.of_a_tool(os.environ) if IS_A_TOOL else os.environ)
environment.refuse_what_cannot_be_used(_told, PROCESS_ROLE)

# --- who may talk to us -------------------------------------------------------------------------------------
DEFAULT_SECRET_KEY = _told.default("SECRET_KEY")
SECRET_KEY = _told.text("SECRET_KEY")
DEBUG = _told.switch("MUSTER_DEBUG")
ALLOWED_HOSTS = list(_told.words("ALLOWED_HOSTS"))
CSRF_TRUSTED_ORIGINS = [
    environment.origin("MUSTER_TRUSTED_ORIGINS", one) for one in _told.words("MUSTER_TRUSTED_ORIGINS")
]

MUSTER_HOME = Path(_told.text("MUSTER_HOME"))
MUSTER_CLUSTER_NAME = _told.text("MUSTER_CLUSTER_NAME")
MUSTER_ENVIRONMENT = _told.text("MUSTER_ENVIRONMENT")
MUSTER_SHARED_DATABASE = _told.text("MUSTER_SHARED_DATABASE")
MUSTER_NODE_NAME = _told.text("MUSTER_NODE_NAME")
MUSTER_NODE_LISTEN = environment.host_with_port("MUSTER_NODE_LISTEN", _told.text("MUSTER_NODE_LISTEN"))
MUSTER_NODE_ADDRESS = f"ws://{MUSTER_NODE_LISTEN}"
if _told.is_given("MUSTER_NODE_ADDRESS"):
    MUSTER_NODE_ADDRESS = environment.url(
        "MUSTER_NODE_ADDRESS", _told.text("MUSTER_NODE_ADDRESS"), "ws", "wss"
    )
MUSTER_NODE_KAFKA_LISTEN = environment.listening_address(
    "MUSTER_NODE_KAFKA_LISTEN", _told.text("MUSTER_NODE_KAFKA_LISTEN")
)
MUSTER_NODE_KAFKA_ADDRESS = _told.text("MUSTER_NODE_KAFKA_ADDRESS")
if MUSTER_NODE_KAFKA_ADDRESS:
    environment.host_with_port("MUSTER_NODE_KAFKA_ADDRESS", MUSTER_NODE_KAFKA_ADDRESS)
MUSTER_NODE_KAFKA_CONNECTIONS = _told.number("MUSTER_NODE_KAFKA_CONNECTIONS")
MUSTER_KAFKA_SASL = _told.switch("MUSTER_KAFKA_SASL")
MUSTER_KAFKA_TLS_CERTIFICATE = _told.text("MUSTER_KAFKA_TLS_CERTIFICATE")
MUSTER_KAFKA_TLS_KEY = _told.text("MUSTER_KAFKA_TLS_KEY")
MUSTER_KAFKA_CONNECTIONS_PER_ADDRESS = _told.number("MUSTER_KAFKA_CONNECTIONS_PER_ADDRESS")
MUSTER_KAFKA_CALLERS_MAX_AGE_MS = _told.number("MUSTER_KAFKA_CALLERS_MAX_AGE_MS")
MUSTER_KAFKA_CALLERS_MAX_AGE_STANDING_MS = _told.number("MUSTER_KAFKA_CALLERS_MAX_AGE_STANDING_MS")
MUSTER_STRANGERS_PER_ADDRESS = _told.number("MUSTER_STRANGERS_PER_ADDRESS")
MUSTER_KAFKA_TLS_CA = _told.text("MUSTER_KAFKA_TLS_CA")
if PROCESS_ROLE in {"node", "worker"}:
    refuse_unusable_authorities(MUSTER_KAFKA_TLS_CA)
MUSTER_WEB_LISTEN = environment.host_with_port("MUSTER_WEB_LISTEN", _told.text("MUSTER_WEB_LISTEN"))
MUSTER_WEB_URL = f"http://{MUSTER_WEB_LISTEN}"
if _told.is_given("MUSTER_WEB_URL"):
    MUSTER_WEB_URL = environment.url("MUSTER_WEB_URL", _told.text("MUSTER_WEB_URL"), "http", "https")
ON_LOOPBACK = all(
    is_loopback(environment.host_of(address))
    for address in (MUSTER_WEB_LISTEN, MUSTER_NODE_LISTEN, *ALLOWED_HOSTS)
)
KEY_PROVES_NOBODY = PROCESS_ROLE not in {"node", "worker"} or not (
    MUSTER_KAFKA_SASL or not is_loopback(environment.host_of(MUSTER_NODE_ADDRESS))
)
"""Else workers and brokers prove who they are by what follows from SECRET_KEY, also where others come."""

# --- the rooms ----------------------------------------------------------------------------------------------
INSTALLED_APPS = [
    "access.rows_apps.RowsConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_htmx",
    "rest_framework",
    "drf_spectacular",
    "config",
    "runtime",
    "access",
    "controller",
    "groups",
    "coordinator",
    "node",
    "web",
    "standalone",
]
MIDDLEWARE = [
    "web.middleware.RequestIds",
    "web.middleware.SecurityHeaders",
    "django.middleware.security.SecurityMiddleware",
    "config.static_files.StaticFiles",
    # Bodies of answers; secrets in them (CSRF) are masked anew each time, and their lengths are blurred.
    "django.middleware.gzip.GZipMiddleware",
    "web.errors.SayWhatIsNotAllowed",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "access.middleware.EndOldSessions",
    "access.middleware.AskWhoItIs",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]
ROOT_URLCONF = "config.urls"
ASGI_APPLICATION = "config.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "web.context.frame",
            ],
        },
    },
]

# --- PostgreSQL and Redis -----------------------------------------------------------------------------------
DATABASE_URL = _told.text("DATABASE_URL")
DATABASE_DIRECT_URL = _told.text("DATABASE_DIRECT_URL") or DATABASE_URL
DATABASES = {"default": environment.database(DATABASE_URL, PROCESS_ROLE)}
environment.database_words("DATABASE_DIRECT_URL", DATABASE_DIRECT_URL)
REDIS_URL = environment.redis("REDIS_URL", _told.text("REDIS_URL"))
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# --- sessions, cookies, passwords ---------------------------------------------------------------------------
# Roles decide what the admin shows.
AUTHENTICATION_BACKENDS = ["access.backends.RoleBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "/login/"
LOGIN_REDIRECT_URL = "/"
SESSION_ENGINE = "access.session_rows"
SESSION_COOKIE_NAME = "muster_session"
SESSION_COOKIE_AGE = 12 * 60 * 60
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = not ON_LOOPBACK
CSRF_COOKIE_HTTPONLY = True
CSRF_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SECURE = not ON_LOOPBACK
CSRF_FAILURE_VIEW = "web.errors.csrf_refused"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
if _told.switch("MUSTER_BEHIND_TLS_PROXY"):
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_HSTS_SECONDS = 365 * 24 * 60 * 60
    # Probes of the process manager reach the process itself, without TLS.
    SECURE_SSL_REDIRECT = True
    SECURE_REDIRECT_EXEMPT = [r"^(livez|readyz|metrics)$"]
DATA_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024
DATA_UPLOAD_MAX_NUMBER_FIELDS = 500

# --- files, language, time ----------------------------------------------------------------------------------
STATIC_URL = "/static/"
STATICFILES_DIRS = [folder for folder in [BASE_DIR / "static"] if folder.exists()]
STATIC_ROOT = Path(_told.text("MUSTER_STATIC_ROOT") or BASE_DIR / "var" / "static")
_collected = (STATIC_ROOT / "staticfiles.json").exists()
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"
        if _collected
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}
# Without `collectstatic` (a checkout, tests) files are served from where they lie.
WHITENOISE_USE_FINDERS = not _collected
WHITENOISE_AUTOREFRESH = DEBUG
LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
FORMAT_MODULE_PATH = "config.formats"
USE_TZ = True
USE_I18N = False

# --- log lines ----------------------------------------------------------------------------------------------
LOGGING_CONFIG = None
log_lines.configure(PROCESS_ROLE, _told.text("MUSTER_LOG_LEVEL"))
for _line in _told.unknown():
    logging.getLogger(__name__).warning(_line)

SILENCED_SYSTEM_CHECKS = [
    # The proxy, not this process, speaks TLS; behind it these are set by MUSTER_BEHIND_TLS_PROXY.
    "security.W004",
    "security.W008",
]
