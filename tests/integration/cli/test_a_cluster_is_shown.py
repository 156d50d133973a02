"""What there is, as `muster` shows it: for people, as JSON, as names; page by page; again and again."""

import signal
import subprocess

import pytest

from controller.models import Broker, BrokerCondition, ElectionLoss, LogNote
from muster.cli.failures import ExitCode
from tests.integration.cli.conftest import Muster
from tests.integration.web import cast
from tests.integration.web.test_pages_of_topics_and_brokers import past
from tests.integration.web.test_plans_are_shown_and_steered import add_plan


def test_groups_and_topics_are_listed_and_shown(viewer: Muster) -> None:
    cast.one_night(groups=1)
    listed = viewer.done("groups", "list")
    row = next(line.split() for line in listed.out.splitlines() if line.startswith("departures"))
    assert row[:5] == ["departures", "Stable", "native", "3", "6"]
    assert viewer.done("groups", "list", "--contains", "depart", "-o", "name").out == "departures\n"
    assert viewer.done("groups", "list", "--phase", "Empty", "-o", "json").json == []
    shown = viewer.done("groups", "show", "departures")
    assert "generation      43" in shown.out
    words = [line.split()[0] for line in shown.out.splitlines() if line]
    assert [word for word in words if word in ("ann", "ben", "cleo")] == ["ann", "ben", "cleo"]
    assert viewer.done("groups", "show", "departures", "-o", "json").json["generation"] == 43
    owned = viewer.done("groups", "members", "departures").out
    assert "flights:0-1" in owned and "flights:4-5" in owned
    offsets = viewer.done("groups", "offsets", "departures", "--topic", "flights", "-o", "json").json
    assert [one["partition"] for one in offsets] == [0, 1, 2, 3, 4, 5]
    one = viewer.done("groups", "offsets", "departures", "--topic", "flights", "--partition", 5, "-o", "json")
    assert one.json == offsets[5:]
    named = viewer.done("groups", "offsets", "departures", "-o", "name").out.splitlines()
    assert "flights-5" in named, "not the offset that is committed"
    assert viewer.done("groups", "offsets", "departures", "--topic", "flights", "-o", "name").out == "".join(
        f"{number}\n" for number in range(6)
    )
    for slip in (("departurs",), ("departures", "--topic", "flihgts")):
        assert viewer("groups", "offsets", *slip).code == ExitCode.NOT_FOUND, "not: there is no lag"
    assert viewer.done("topics", "list", "--contains", "LIGHT", "-o", "name").out == "flights\n"
    assert "replicas    3" in viewer.done("topics", "show", "flights").out


def test_the_past_of_a_topic_is_shown(viewer: Muster) -> None:
    past(cast.add_topic("orders", 2, [(2, 1)]))
    moment = cast.ago(minutes=20).strftime("%Y-%m-%dT%H:%M:%SZ")
    rows = viewer.done("topics", "as-of", "orders", moment, "-o", "json").json
    assert [(row["leader"], row["isr"]) for row in rows] == [(1, [1]), (2, [2, 1])]
    changes = viewer.done("topics", "history", "orders", 0).out.splitlines()
    assert [line for line in changes if "broker 2 was silent" in line and "may lack records" in line]
    assert viewer.done("topics", "history", "orders", 0, "-o", "name").out == "102\n101\n100\n"


def test_a_list_goes_on_over_its_pages(viewer: Muster) -> None:
    topic = cast.add_topic("clicks", 1, [(1,)])
    cast.many_groups(topic, 1_203)
    names = viewer.done("groups", "list", "-o", "name").out.split()
    assert len(names) == 1_203 and names == sorted(names)
    assert viewer.done("groups", "list", "-o", "name", "--limit", 501).out.split() == names[:501]


@pytest.mark.parametrize(
    ("phase", "takes", "said"),
    [
        ("Computing", "2m 0s at least, for broker 1", "A worker computes it. Then: muster plans show"),
        ("Draft", "2m 0s at least, for broker 1", "Next: muster plans approve"),
        ("Approved", "2m 0s at least, for broker 1", "Next: muster plans run"),
        ("Running", "-", ""),
    ],
)
def test_a_plan_says_how_long_it_takes_and_what_to_do_next(
    viewer: Muster, phase: str, takes: str, said: str
) -> None:
    plan = add_plan(phase, started_at=cast.ago(minutes=1) if phase == "Running" else None)
    shown = viewer.done("plans", "show", plan.id)
    assert f"takes          {takes}\n" in shown.out
    assert (f"{said} {plan.id}" if said else "") in shown.err and ("Next" in shown.err) == ("Next" in said)


def test_processes_are_listed_with_their_versions(viewer: Muster) -> None:
    cast.add_cluster()
    cast.add_broker(1)
    cast.say(1, cast.GIGABYTE)
    BrokerCondition.objects.update(version="0.1.0+3f9ac21b")
    listed = viewer.done("processes").out.splitlines()
    assert listed[0].split() == ["KIND", "NAME", "PROCESSES", "VERSION", "STATE", "SINCE"]
    assert [line.split()[:5] for line in listed if line.startswith(("node", "broker"))] == [
        ["node", "node-1", "1", "-", "live"],
        ["broker", "1", "1", "0.1.0+3f9ac21b", "live"],
    ]
    assert viewer.done("processes", "--kind", "broker", "-o", "name").out == "1\n"
    assert viewer.done("brokers", "show", 1, "-o", "json").json["condition"]["program"] == "0.1.0+3f9ac21b"


def test_what_is_wrong_is_found_and_told_by_the_exit_code(viewer: Muster) -> None:
    cast.add_cluster()
    for broker in (1, 2, 3):
        cast.add_broker(broker)
    cast.add_topic("orders", 2, [(1, 2), (2, 3)])
    well = viewer("health")
    assert (well.code, well.out, well.err) == (0, "", "There is none.\n")
    assert viewer.done("status", "-o", "json").json["findings"] == []
    Broker.objects.filter(broker_id=3).update(fenced=True)
    ill = viewer("health", "-o", "json")
    assert ill.code == 1 and "2 findings" in ill.err
    assert [(one["what"], one["which"]) for one in ill.json] == [
        ("broker fenced", 3),
        ("under-replicated", "orders-1"),
    ]
    status = viewer.done("status").out
    assert "fenced=1 live=2" in status and "under-replicated" in status


def test_that_producers_are_refused_is_found_with_the_brokers_that_lag(viewer: Muster) -> None:
    cast.add_cluster()
    for broker in (1, 2):
        cast.add_broker(broker)
    orders = cast.add_topic("orders", 1, [(1, 2)], configs={"min.insync.replicas": "2"})
    cast.lags(orders, 0, 1, 2)
    ill = viewer("health", "-o", "json")
    assert ill.code == 1
    told = {one["what"]: (one["which"], one["detail"]) for one in ill.json}
    assert set(told) == {"under-replicated", "partitions under min isr"}
    assert told["under-replicated"] == ("orders-0", "replicas [1, 2], in sync [1]")
    which, detail = told["partitions under min isr"]
    assert which == "orders-0 is under min ISR"
    assert (
        "refused with NOT_ENOUGH_REPLICAS" in detail and "whether it reaches broker 1 at 10.0.1.11" in detail
    )


def test_what_the_overview_finds_is_found_here_too(viewer: Muster) -> None:
    cast.add_cluster()
    for broker in (1, 2):
        cast.add_broker(broker)
    cast.add_topic("orders", 1, [(1, 2)])
    cast.say(1, 1_000, short_since=cast.ago(seconds=90))
    ill = viewer("health", "-o", "json")
    assert ill.code == 1 and [one["what"] for one in ill.json] == ["broker disk full"]
    assert ill.json[0]["which"] == "Broker 1 takes no records"
    assert "KAFKA_STORAGE_ERROR" in ill.json[0]["detail"] and "give the disk room" in ill.json[0]["detail"]


def test_a_group_whose_last_rebalance_failed_is_found_in_any_phase(viewer: Muster) -> None:
    cast.add_cluster()
    cast.add_group("orders", phase="Empty", error="ben did not start")
    cast.add_group("clicks", phase="Stable", error="cleo did not start")
    cast.add_group("flights", phase="PreparingRebalance", error="ann did not stop")
    ill = viewer("health", "-o", "json")
    assert ill.code == 1
    assert {(one["what"], one["which"], one["detail"]) for one in ill.json} == {
        ("group error", "orders", "ben did not start"),
        ("group error", "clicks", "cleo did not start"),
        ("group cannot rebalance", "flights", "ann did not stop"),
    }
    assert len(ill.json) == 3, "each once"


def test_a_log_that_was_mended_is_no_finding(viewer: Muster) -> None:
    """Else a watchman would be called until its broker starts again for another reason."""
    cast.add_cluster()
    for broker in (1, 2):
        cast.add_broker(broker)
    orders = cast.add_topic("orders", 3, [(1, 2)])
    for number, state in enumerate(("mended", "damaged", "offline")):
        LogNote.objects.create(
            broker_id=2, topic_id=orders.topic_id, partition=number, state=state, since=cast.ago(seconds=9)
        )
    told = [(one["what"], one["which"]) for one in viewer("health", "-o", "json").json]
    assert told == [("log offline", "orders-2 on broker 2"), ("log damaged", "orders-1 on broker 2")]
    LogNote.objects.exclude(state="mended").delete()
    assert viewer("health").code == 0
    [row] = viewer.done("brokers", "logs", "-o", "json").json
    assert row["state"] == "mended"


def test_a_broker_that_never_came_is_no_finding_where_others_are(viewer: Muster) -> None:
    cast.add_cluster()
    cast.add_broker(1)
    cast.add_broker(7, fenced=True)
    Broker.objects.filter(broker_id=7).update(broker_epoch=0)
    well = viewer("health")
    assert well.code == 0 and "Enrolled, and never came yet: broker 7." in well.err
    Broker.objects.filter(broker_id=1).delete()
    assert [one["what"] for one in viewer("health", "-o", "json").json] == ["broker never-connected"]


def test_the_doctor_starts_nobody_who_is_kept_out(viewer: Muster) -> None:
    cast.add_cluster()
    cast.add_broker(1)
    for broker in (2, 3):
        cast.add_broker(broker, fenced=True)
    Broker.objects.filter(broker_id=2).update(set_back="broker 2 was told version 90000")
    step = ("doctor", "-o", "json")
    [both] = [row for row in viewer(*step).json if row["step"] == "brokers"]
    assert "keeps out 2:" in both["do"] and "adopt_restore" in both["do"] and "start them" in both["do"]
    Broker.objects.filter(broker_id=3).update(fenced=False)
    [one] = [row for row in viewer(*step).json if row["step"] == "brokers"]
    assert one["state"] == "wrong" and "adopt_restore" in one["do"] and "start them" not in one["do"]


def test_what_elections_lost_is_a_finding(viewer: Muster) -> None:
    cast.add_cluster()
    for broker in (1, 2):
        cast.add_broker(broker)
    orders = cast.add_topic("orders", 1, [(1, 2)])
    ElectionLoss.objects.create(
        topic_id=orders.topic_id,
        topic_name="orders",
        partition=0,
        isr=[1],
        leader=2,
        leader_epoch=7,
        reason="unclean election",
        version=30,
    )
    ill = viewer("health", "-o", "json")
    assert ill.code == 1 and [one["what"] for one in ill.json] == ["records lost"]
    [row] = viewer.done("losses", "list", "--state", "open", "-o", "json").json
    assert (row["topic"], row["lost"], row["waits_for"]) == ("orders", None, [1])
    assert "unclean election" in viewer.done("losses", "list").out
    assert viewer.done("losses", "list", "-o", "name").out == "orders-0\n"
    refused = viewer("losses", "acknowledge", "--topic", "orders:0", "--reason", "seen")
    assert refused.code == 6 and "may not operate" in refused.err
    assert viewer("losses", "acknowledge", "--topic", "clicks", "--reason", "seen").code == 3


def test_a_page_is_written_again_until_somebody_has_seen_enough(viewer: Muster) -> None:
    cast.add_cluster()
    cast.add_broker(1)
    process = viewer.begin("status", "--watch", "--interval", "0.2", stdout=subprocess.PIPE)
    assert process.stdout is not None
    seen = 0
    for line in process.stdout:
        seen += line.startswith("cluster")
        if seen == 3:
            break
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")


def test_who_reads_only_the_beginning_is_told_of_no_mistake(viewer: Muster) -> None:
    topic = cast.add_topic("clicks", 1, [(1,)])
    cast.many_groups(topic, 2_000)
    command = " ".join(viewer.command("groups", "list", "-o", "json"))
    done = subprocess.run(
        ["bash", "-c", f"{command} | head -1"],
        env=viewer.environment,
        cwd=viewer.home,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("[\n", "")
