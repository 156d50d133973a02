"""This room renders the overview: what needs a person now, then every group on one roll."""

from collections.abc import Sequence

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

import groups.queries
from access.grants import Operation
from access.pages import needs
from controller.findings import Finding
from controller.journal import last_turns
from groups import standing as group_standing
from groups.fingerprints import OVERVIEW
from groups.journal import last_rebalances

ROLL_UP_TO = 200
LAST_SHOWN = 6
FINDINGS_SHOWN = 50
OF_GROUPS_SHOWN = 8
"""So many groups that need attention are findings of their own here; the list of groups has them all."""
BROKERS_SHOWN = 20


@require_safe
@needs(Operation.VIEW)
def overview(request: HttpRequest) -> HttpResponse:
    """What is wrong, since when, because of what, what you may do; above 200 groups the roll shows counts."""
    standing = group_standing.of(request)
    cluster = standing.cluster
    if standing.total <= ROLL_UP_TO:
        roll = groups.queries.groups_by_name(groups.queries.GroupFilter(), "", ROLL_UP_TO)
    else:
        roll = groups.queries.groups_named(list(standing.by_group)[:ROLL_UP_TO])
    findings = _foremost(standing.findings)
    context = {
        "section": "overview",
        "findings": findings,
        "left_out": len(standing.findings) - len(findings),
        "watch": OVERVIEW,
        "rendered": standing.fingerprint,
        "cluster": cluster,
        "brokers": cluster.foremost(BROKERS_SHOWN),
        "standing": standing,
        "roll": [(row, standing.by_group.get(row.name)) for row in roll],
        "roll_up_to": ROLL_UP_TO,
        "whole_roll": standing.total <= ROLL_UP_TO,
        "rebalances": last_rebalances(LAST_SHOWN),
        "turns": last_turns(LAST_SHOWN),
    }
    return render(request, "web/overview.html", context)


def _foremost(findings: Sequence[Finding]) -> list[Finding]:
    """The most urgent ones; of groups only the first few."""
    shown, of_groups = [], 0
    for one in findings:
        of_groups += one.kind.startswith("group_")
        if not one.kind.startswith("group_") or of_groups <= OF_GROUPS_SHOWN:
            shown.append(one)
    return shown[:FINDINGS_SHOWN]
