"""What an unclean election lost is seen in the browser and acknowledged there; then it is no finding."""

from playwright.sync_api import Page, expect

from tests.browser.test_an_operator_changes_topics import cluster, fill, fits, page, web
from tests.integration.replication.cluster import Cluster
from tests.integration.replication.test_what_an_unclean_election_lost_is_told import (
    ALONE,
    elected_uncleanly,
)

__all__ = ["cluster", "page", "web"]

FOUND = "An election of orders-0 lost committed records"


def test_a_loss_is_a_finding_until_somebody_says_that_it_was_seen(page: Page, cluster: Cluster) -> None:
    elected_uncleanly(cluster)
    page.goto("/")
    page.get_by_role("link", name=FOUND).click()
    expect(page.locator("#head")).to_contain_text("1 not acknowledged")
    expect(page.locator("#losses")).to_contain_text(f"at least {ALONE}")
    assert fits(page)
    overview = page.context.new_page()
    overview.goto("/")
    overview.get_by_role("link", name=FOUND).wait_for()

    page.locator("#losses").get_by_role("link", name="Acknowledge", exact=True).click()
    page.locator("#would-be").get_by_text(f"At least {ALONE} committed records are lost").wait_for()
    fill(page, "reason", "sent again from the gates")
    assert fits(page)
    page.get_by_role("button", name="Acknowledge what it lost").click()
    page.get_by_text("Done.").wait_for()
    # The page that stands open beside it says by itself that the finding is gone.
    expect(overview.get_by_role("link", name=FOUND)).to_have_count(0)
    page.goto("/losses/")
    expect(page.locator("#head")).to_contain_text("All seen")
    expect(page.locator("#losses")).to_contain_text("sent again from the gates")
    told = "SELECT acknowledged_by, acknowledged_why FROM election_loss"
    assert cluster.query(told) == [("mira", "sent again from the gates")]
