"""This room holds Django's HTTP application; web.serve joins it with the live websocket."""

import os

from django.core.asgi import get_asgi_application

from config.template_files import read_all

# This product has no other settings module, whatever the shell was told for another one.
os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"

application = get_asgi_application()
read_all()
