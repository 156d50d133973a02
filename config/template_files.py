"""This room reads the templates of pages when a process begins, as they belong to what it runs."""

from pathlib import Path

from django.template import Engine, TemplateDoesNotExist, TemplateSyntaxError


def read_all(engine: Engine | None = None) -> None:
    """Compile every template now. Django reads each when it is first shown: an upgrade that replaced files
    below a process that ran on mixed pages of two versions, and failed those whose view knew less.

    `engine`: the pages' own, unless another is told.
    """
    engine = engine or Engine.get_default()
    folders = {folder for loader in engine.template_loaders for folder in _folders(loader)}
    for folder in sorted(folders):
        for path in sorted(folder.rglob("*.html")):
            try:
                engine.get_template(path.relative_to(folder).as_posix())
            except (TemplateDoesNotExist, TemplateSyntaxError):
                # Of a library's own, one may need an app that is not installed here; nobody shows it.
                continue


def _folders(loader: object) -> list[Path]:
    below = [loader, *getattr(loader, "loaders", ())]
    return [Path(folder) for one in below if hasattr(one, "get_dirs") for folder in one.get_dirs()]
