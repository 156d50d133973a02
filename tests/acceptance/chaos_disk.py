"""This room is what chaos does to the disk of one broker: it gets full, nearly and then wholly."""

from typing import Final

from confluent_kafka import ElectionType, KafkaError, Producer, TopicPartition
from confluent_kafka.cimpl import NewTopic

from tests.acceptance.chaos_cluster import ON_SMALL_DISK, RESERVE_BYTES, TOPICS
from tests.acceptance.chaos_deeds import Deeds
from tests.acceptance.chaos_records import whole_log

ALONE: Final = "notes"
"""A topic whose only replica lies on the small disk: nobody else can take what it refuses."""


class FullDisks(Deeds):
    """What is done to disks."""

    def fill_disk(self) -> None:
        """Refused while there still is room, offered to others, and healed without a restart."""
        disk, name = self._cluster.disk, f"broker-{ON_SMALL_DISK}"
        if disk.missing:
            self._say(f"no disk is filled: {disk.missing}")
            return
        process = self._cluster.process(name)
        self._write_alone("before")
        self._let_it_lead()
        disk.fill(RESERVE_BYTES - 1)
        self._cluster.wait_led_by_another(name)
        self._refused_alone()
        assert disk.free_bytes > RESERVE_BYTES // 2, "what it refuses it could still have stored"
        self._account.wait_goes_on("while one disk is nearly full")
        disk.fill(0)
        self._cluster.await_true(self._follows_no_more, "who cannot store anything leaves the ISRs")
        self._account.wait_goes_on("while one disk is full")
        disk.empty()
        self._cluster.wait_whole("when there is room again")
        self._write_alone("afterwards")
        assert self._cluster.process(name) is process and not process.ended, "without a restart"

    def _let_it_lead(self) -> None:
        """One partition at least, by the ways of operators."""
        topic, number = self._place()
        row = self._cluster.partitions(topic)[number]
        others = [one for one in row["assigned"] if one != ON_SMALL_DISK]
        target = (ON_SMALL_DISK, *others[: len(row["assigned"]) - 1])
        self._ask_to_move(topic, number, target)

        admin = self._cluster.admin()

        def leads() -> bool:
            row = self._cluster.partitions(topic)[number]
            if tuple(row["assigned"]) == target and row["leader"] != ON_SMALL_DISK:
                place = TopicPartition(topic, number)
                admin.elect_leaders(ElectionType.PREFERRED, [place]).result(30)
            return bool(row["leader"] == ON_SMALL_DISK)

        self._cluster.await_true(leads, "who has the small disk leads")

    def _follows_no_more(self) -> bool:
        rows = [row for topic in TOPICS for row in self._cluster.partitions(topic).values()]
        return all(ON_SMALL_DISK not in row["isr"] for row in rows)

    def _written_alone(self, retries: int) -> str:
        """Write one record to the topic that only this broker has; the error's name, or ""."""
        told: list[KafkaError | None] = []
        producer = Producer(
            {"bootstrap.servers": self._cluster.bootstrap, "acks": "all", "retries": retries, "log_level": 0}
        )
        producer.produce(ALONE, b"note", partition=0, on_delivery=lambda error, _: told.append(error))
        assert producer.flush(60) == 0, "neither acknowledged nor refused"
        return "" if told[0] is None else told[0].name()

    def _write_alone(self, when: str) -> None:
        if not self._cluster.partitions(ALONE):
            wanted = NewTopic(ALONE, num_partitions=1, replica_assignment=[[ON_SMALL_DISK]])
            admin = self._cluster.admin()
            admin.create_topics([wanted], operation_timeout=20.0)[ALONE].result(40)
        assert self._written_alone(retries=100) == "", when

    def _refused_alone(self) -> None:
        """Nobody else leads it: it stays where it is, is refused by name, and can be read."""
        assert self._written_alone(retries=0) == "KAFKA_STORAGE_ERROR"
        assert len(whole_log(self._cluster.bootstrap, ALONE, partitions=1)) > 0
