"""This room is the door for people: sign in by password or one-time link, sign out."""

from typing import Any

from django.conf import settings
from django.contrib.auth import authenticate, login, logout
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import REASON_BAD_ORIGIN
from django.shortcuts import redirect, render
from django.utils.decorators import method_decorator
from django.utils.encoding import escape_uri_path
from django.utils.http import url_has_allowed_host_and_scheme, urlencode
from django.views import View
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from access import service
from access.login_limits import (
    SIGN_IN,
    SIGN_IN_BY_LINK,
    WINDOW_MS,
    enough_failed_links,
    network_counted,
    over_its_bound,
    too_many_failures,
)
from access.peers import address_of
from access.typed import typed_in, typed_into, way_back_to, written_as_a_form

_LONGEST_PASSWORD = 1024
_OF_ANOTHER_SITE = REASON_BAD_ORIGIN.partition("%")[0]


@method_decorator([login_not_required, never_cache, sensitive_post_parameters("password")], name="dispatch")
class SignIn(View):
    """Name and password; the answer to any failure is the same, and failures are bounded."""

    def get(self, request: HttpRequest) -> HttpResponse:
        if request.user.is_authenticated:
            return redirect(_next(request))
        return self._page(request)

    def post(self, request: HttpRequest) -> HttpResponse:
        # PostgreSQL stores no zero byte, and no name has one.
        name = request.POST.get("username", "").replace("\x00", "").strip()
        password = request.POST.get("password", "")
        address = address_of(request)
        if too_many_failures(name, address):
            return self._too_many(request, name)
        user = None
        if name and len(password) <= _LONGEST_PASSWORD and len(name) <= 150 and "\x00" not in password:
            user = authenticate(request, username=name, password=password)
        if user is None or service.role_of(user) is None:
            service.record(SIGN_IN, name, allowed=False, address=address, detail=network_counted(address))
            # Over the bound of the address a wrong password is answered as a name that nobody has.
            if over_its_bound(address):
                return self._too_many(request, name)
            return self._page(request, name=name, refusal="wrong")
        _enter(request, user)
        service.record(SIGN_IN, name, allowed=True, address=address)
        return _go_on(request)

    def _too_many(self, request: HttpRequest, name: str) -> HttpResponse:
        page = self._page(request, name=name, refusal="too many")
        page.status_code = 429
        page["Retry-After"] = str(WINDOW_MS // 1000)
        return page

    def _page(self, request: HttpRequest, **more: Any) -> HttpResponse:
        return _door(request, **more)


@method_decorator([login_not_required, never_cache], name="dispatch")
class SignInOnce(View):
    """A one-time link: looking at it shows a button, only the button signs in and uses it up.

    Programs that open every link of a message, and sites that would sign somebody in as somebody else, look.
    """

    def get(self, request: HttpRequest, secret: str) -> HttpResponse:
        name = service.person_of_link(secret)
        if name is None:
            return self._refuse(request)
        return render(request, "access/once.html", {"name": name})

    def post(self, request: HttpRequest, secret: str) -> HttpResponse:
        user = service.use_login_link(secret)
        if user is None or service.role_of(user) is None:
            return self._refuse(request)
        _enter(request, user)
        service.record(SIGN_IN_BY_LINK, user.get_username(), allowed=True, address=address_of(request))
        return redirect(settings.LOGIN_REDIRECT_URL)

    def _refuse(self, request: HttpRequest) -> HttpResponse:
        address = address_of(request)
        if not enough_failed_links(address):
            service.record(
                SIGN_IN_BY_LINK, "", allowed=False, address=address, detail=network_counted(address)
            )
        page = render(request, "access/login.html", {"refusal": "link", "next": settings.LOGIN_REDIRECT_URL})
        page.status_code = 403
        return page


def at_an_old_page(request: HttpRequest, reason: str) -> HttpResponse | None:
    """What is answered to a door or a form that lay open while its browser signed in elsewhere, or None.

    What was typed would be lost. Nobody is signed in by this, and a form is only shown; what another site
    sends comes from no page of ours.
    """
    is_ours = "Origin" in request.headers and not reason.startswith(_OF_ANOTHER_SITE)
    if not is_ours or request.method != "POST":
        return None
    if request.path == settings.LOGIN_URL:
        name = request.POST.get("username", "").strip()
        if request.user.is_authenticated and request.user.get_username() == name:
            return _go_on(request)
        return _door(request, name=name, refusal="old")
    if not request.POST.get("key"):
        return None
    form, typed = escape_uri_path(request.path), typed_into(request.POST)
    if request.user.is_authenticated:
        return _typed(request, form, typed, is_old=True)
    written = written_as_a_form(typed)
    kept = {"typed": written, "kept": "yes"} if written else {"kept": "no"} if typed else {}
    return render(request, "access/login.html", {"next": form, **kept}, status=403)


def _go_on(request: HttpRequest) -> HttpResponse:
    """Behind the door: to the page that was wanted, or to the form that was kept."""
    if fields := typed_in(request.POST.get("typed", "")):
        return _typed(request, _next(request), fields, is_old=False)
    return redirect(_next(request))


def _typed(request: HttpRequest, form: str, fields: list[tuple[str, str]], *, is_old: bool) -> HttpResponse:
    words = {"form": form, "fields": fields, "is_old": is_old, "way_back": way_back_to(form, fields)}
    return render(request, "access/typed.html", words, status=403 if is_old else 200)


def _door(request: HttpRequest, **more: Any) -> HttpResponse:
    to, typed = _next(request), request.POST.get("typed")
    words = {"next": to, "kept": request.GET.get("kept"), "typed": typed}
    # Sent again by a reload, a wrong password would count again. What was kept only this page bears.
    if request.method == "POST" and not typed:
        words["way_back"] = "?" + urlencode({"next": to})
    return render(request, "access/login.html", words | more, status=403 if more else 200)


def _enter(request: HttpRequest, user: Any) -> None:
    """Begin a session; the rows of sessions that ended go, or there would be more of them for ever."""
    login(request, user)
    request.session.clear_expired()


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    """End the session and say so in the audit."""
    name = request.user.get_username()
    logout(request)
    service.signed_out(name, address_of(request))
    return redirect(settings.LOGIN_URL)


def _next(request: HttpRequest) -> str:
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    safe = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure())
    return wanted if safe else str(settings.LOGIN_REDIRECT_URL)
