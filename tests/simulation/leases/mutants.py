"""This room breaks one rule of who is the controller at a time, to see that the simulation notices."""

from broker.link import ControllerLink
from controller.heard import BrokersHeard
from controller.sockets import BrokerDoor
from runtime import making_way, sharing
from runtime.freshness import Freshness
from runtime.leases import LeaseKeeper
from runtime.making_way import MakingWay
from tests.simulation.native.mutants import Mutant, Patch

MUTANTS = (
    Mutant(
        "no_settling",
        "a controller is looked for by everybody before it makes way",
        (Patch(MakingWay.look, "elapsed_ms(self._holding_since, sent_at) < SETTLE_MS", "False"),),
    ),
    Mutant(
        "forgotten_when_done",
        "who made way says so for as long as its process runs",
        (
            Patch(
                MakingWay.look,
                "if any(peer.made_way_for == run and peer.run == controller for peer in peers):",
                "if True:",
            ),
        ),
    ),
    Mutant(
        "anybody_takes_it_back",
        "only the controller's word takes back that a node made way",
        (Patch(MakingWay.look, " and peer.run == controller", ""),),
    ),
    Mutant(
        "never_taken_back",
        "a node to which the controller comes back no longer says that it made way",
        (
            Patch(
                MakingWay.look,
                'self.made_way_for = ""\n        return None',
                "pass\n        return None",
            ),
        ),
    ),
    Mutant(
        "newcomers_count",
        "brokers that hold no partition take the controller from nobody who does",
        (
            Patch(
                making_way.gain,
                "len(there & registered) - len(here & registered), len(there) - len(here)",
                "0, len(there) - len(here)",
            ),
        ),
    ),
    Mutant(
        "here_counts_there",
        "who has a link here does not count where it came before",
        (Patch(making_way.gain, "there = peer.came - here", "there = peer.came"),),
    ),
    Mutant(
        "as_many_are_enough",
        "a controller that hears as many as another is not robbed",
        (
            Patch(
                MakingWay._consider,
                "gain(peer, peers, heard) > NO_GAIN",
                "gain(peer, peers, heard) >= NO_GAIN",
            ),
        ),
    ),
    Mutant(
        "silent_links_count",
        "a broker that came to another node, and says nothing here, is that node's",
        (Patch(making_way.gain, "heard.linked - (heard.silent & elsewhere)", "heard.linked"),),
    ),
    Mutant(
        "who_hangs_is_chosen",
        "a node that does not renew proves nothing",
        (Patch(MakingWay._chosen, "peer.renewals >= case.renewals + RENEWALS", "True"),),
    ),
    Mutant(
        "no_holding",
        "more brokers must be heard elsewhere for two seconds",
        (Patch(MakingWay._chosen, "elapsed_ms(case.since, sent_at) >= HOLD_MS", "True"),),
    ),
    Mutant(
        "came_for_ever",
        "it counts for some seconds that a broker came",
        (Patch(BrokersHeard.of, "elapsed_ms(at, now) < CAME_MS", "True"),),
    ),
    Mutant(
        "nobody_is_told_who_came",
        "each node says which brokers came to it",
        (Patch(LeaseKeeper._renew, "Said(self._heard().came,", "Said(frozenset(),"),),
    ),
    Mutant(
        "who_came_is_not_noted",
        "a broker that is sent elsewhere has come",
        (Patch(BrokerDoor._refusal, "self._controller.came(link.broker_id)", "pass"),),
    ),
    Mutant(
        "best_whoever_made_way",
        "who made way is not the best node again",
        (Patch(sharing._reached, "if not node.made_way_for", "if True"),),
    ),
    Mutant(
        "best_whoever_is_reached",
        "the best node is one that was made way for",
        (Patch(sharing._reached, "[node for node in able if node.run in named] or able", "able"),),
    ),
    Mutant(
        "no_freeze",
        "who has not renewed for five seconds answers nothing",
        (
            Patch(
                Freshness.frozen_at, "self._announced or sent_at is None or", "sent_at is None or False and"
            ),
        ),
    ),
    Mutant(
        "silence_is_borne",
        "a broker leaves a controller that says nothing",
        (Patch(ControllerLink._hear, "min(session_timeout_s, SILENT_S)", "600.0"),),
    ),
)
