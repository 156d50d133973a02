"""This room names the addresses of signing in and out."""

from django.urls import path

from access import views

urlpatterns = [
    path("login/", views.SignIn.as_view(), name="login"),
    path("login/once/<str:secret>/", views.SignInOnce.as_view(), name="login-once"),
    path("logout/", views.sign_out, name="logout"),
]
