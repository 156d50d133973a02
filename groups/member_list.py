"""This room pages through the members that the page of one group lists, and finds some by their words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from controller.paging import Window
from groups.group_page import GroupPage
from groups.member_rows import Member, MemberRow

MEMBERS_OF_A_PAGE = 50
LONGEST_WORD = 249


@dataclass(frozen=True, slots=True)
class MemberList:
    """The members that are shown, of those whose id, instance, client or host contains `contains`."""

    rows: Sequence[MemberRow]
    pages: Window
    contains: str
    many: bool
    """More than one page, so that they can be looked for."""

    @property
    def beside(self) -> str:
        """What the address says of this list, for the links of the other one on the page."""
        said = {"member": self.contains, "members": self.pages.first}
        return "".join(f"{urlencode({name: value})}&" for name, value in said.items() if value)


def listed(page: GroupPage, contains: str, first: int, **beside: Any) -> MemberList:
    """A page of members from place `first` on; `beside`: what else the address asks of the page."""
    word = contains.strip()[:LONGEST_WORD]
    found = page.members
    if word:
        found = [one for one in found if any(word.casefold() in said.casefold() for said in _words(one))]
    begin = first if first < len(found) else 0
    pages = Window(begin, MEMBERS_OF_A_PAGE, len(found), {**beside, "member": word}, by="members")
    rows = page.rows_of(found[begin : begin + MEMBERS_OF_A_PAGE])
    return MemberList(rows, pages, word, len(page.members) > MEMBERS_OF_A_PAGE)


def _words(member: Member) -> Iterator[str]:
    for name in ("member_id", "group_instance_id", "client_id", "client_host"):
        yield getattr(member, name, "") or ""
