"""This room asks what an operator asks, by AdminClients of Python: `admin.py CLIENT BOOTSTRAP TOPIC FULL`.

Prints one JSON object of what it was told. TOPIC is made, changed and deleted; FULL has records.
"""

import asyncio
import importlib
import json
import sys
import time
import warnings
from typing import Any

RETENTION = {"retention.ms": "86400000"}
Told = dict[str, Any]


def eventually(look: Any) -> Any:
    """What `look` finds, once it finds something: doors hear a moment later of what another one was asked."""
    give_up_at = time.monotonic() + 60
    while time.monotonic() < give_up_at:
        if found := look():
            return found
        time.sleep(0.1)
    raise SystemExit("nothing was found within a minute")


def once_it_is(found: str, wanted: str) -> str | None:
    """What was found, if that was wanted."""
    return found if found == wanted else None


def librdkafka(bootstrap: str, topic: str, full: str) -> Told:
    from confluent_kafka import ElectionType, TopicPartition

    # What it offers there is not all declared.
    library: Any = importlib.import_module("confluent_kafka.admin")
    admin = library.AdminClient({"bootstrap.servers": bootstrap})
    resource = library.ConfigResource(library.ConfigResource.Type.TOPIC, topic)

    def partitions(count: int) -> Any:
        found = admin.list_topics(topic, timeout=30).topics[topic].partitions
        return found if len(found) == count else None

    told: Told = {"cluster": sorted(node.id for node in admin.describe_cluster().result().nodes)}
    admin.create_topics([library.NewTopic(topic, 2, 2)])[topic].result()
    told["created"] = [len(one.replicas) for one in eventually(lambda: partitions(2)).values()]
    admin.create_partitions([library.NewPartitions(topic, 4)])[topic].result()
    told["grown"] = len(eventually(lambda: partitions(4)))
    (key, value), *_ = RETENTION.items()
    resource.add_incremental_config(
        library.ConfigEntry(key, value, incremental_operation=library.AlterConfigOpType.SET)
    )
    admin.incremental_alter_configs([resource])[resource].result()
    asked = library.ConfigResource(library.ConfigResource.Type.TOPIC, topic)
    told["config"] = eventually(
        lambda: once_it_is(admin.describe_configs([asked])[asked].result()[key].value, value)
    )
    elected = admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, 0)]).result()
    told["elected"] = elected[TopicPartition(topic, 0)].name()
    place = TopicPartition(full, 0)
    told["ends"] = [
        admin.list_offsets({place: spec})[place].result().offset
        for spec in (library.OffsetSpec.earliest(), library.OffsetSpec.latest())
    ]
    admin.delete_topics([topic])[topic].result()
    told["deleted"] = eventually(lambda: topic not in admin.list_topics(timeout=30).topics)
    return told


def kafka_python(bootstrap: str, topic: str, full: str) -> Told:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        import kafka.errors
        from kafka import KafkaAdminClient, TopicPartition
        from kafka.admin import ConfigResource, ConfigResourceType

    admin = KafkaAdminClient(bootstrap_servers=bootstrap.split(","))

    def partitions(count: int) -> Any:
        (found,) = admin.describe_topics([topic])
        return found["partitions"] if len(found["partitions"]) == count else None

    def replicas() -> list[int]:
        return next(list(one["replica_nodes"]) for one in partitions(4) if one["partition_index"] == 0)

    told: Told = {"cluster": sorted(one["broker_id"] for one in admin.describe_cluster()["brokers"])}
    admin.create_topics({topic: {"num_partitions": 2, "replication_factor": 2}})
    told["created"] = [len(one["replica_nodes"]) for one in eventually(lambda: partitions(2))]
    admin.create_partitions({topic: 4})
    told["grown"] = len(eventually(lambda: partitions(4)))
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, RETENTION)])
    asked = [ConfigResource(ConfigResourceType.TOPIC, topic)]
    told["config"] = eventually(
        lambda: once_it_is(
            admin.describe_configs(asked)["topic"][topic]["retention.ms"]["value"], RETENTION["retention.ms"]
        )
    )
    target = another(replicas())
    admin.alter_partition_reassignments({TopicPartition(topic, 0): target})
    eventually(lambda: replicas() == target and not admin.list_partition_reassignments())
    told["moved"] = True
    elected = admin.elect_leaders(0, {topic: [0]}, raise_errors=False)
    code = elected.replica_election_results[0].partition_result[0].error_code
    told["elected"] = kafka.errors.for_code(code).__name__
    place = TopicPartition(full, 0)
    told["ends"] = [admin.list_partition_offsets({place: at})[place].offset for at in (-2, -1)]
    admin.delete_topics([topic])
    told["deleted"] = eventually(lambda: topic not in admin.list_topics())
    return told


def another(replicas: list[int]) -> list[int]:
    """The same number of brokers of 1, 2 and 3, one of them new and first."""
    new = next(number for number in (1, 2, 3) if number not in replicas)
    return [new, *replicas[1:]]


async def _aiokafka(bootstrap: str, topic: str, full: str) -> Told:
    from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
    from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()

    async def partitions(count: int) -> Any:
        give_up_at = time.monotonic() + 60
        while time.monotonic() < give_up_at:
            (found,) = await admin.describe_topics([topic])
            if len(found["partitions"]) == count:
                return found["partitions"]
            await asyncio.sleep(0.1)
        raise SystemExit(f"{topic} has not {count} partitions within a minute")

    described = await admin.describe_cluster()
    told: Told = {"cluster": sorted(one["node_id"] for one in described["brokers"])}
    await admin.create_topics([NewTopic(topic, 2, 2)])
    told["created"] = [len(one["replicas"]) for one in await partitions(2)]
    await admin.create_partitions({topic: NewPartitions(4)})
    told["grown"] = len(await partitions(4))
    await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs=RETENTION)])
    for _ in range(600):
        (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        ((*_, entries),) = answer.resources
        told["config"] = {name: value for name, value, *_ in entries}["retention.ms"]
        if told["config"] == RETENTION["retention.ms"]:
            break
        await asyncio.sleep(0.1)
    await admin.delete_topics([topic])
    while topic in await admin.list_topics():
        await asyncio.sleep(0.1)
    told["deleted"] = True
    await admin.close()
    return told


def aiokafka(bootstrap: str, topic: str, full: str) -> Told:
    return asyncio.run(_aiokafka(bootstrap, topic, full))


CLIENTS = {"librdkafka": librdkafka, "kafka-python": kafka_python, "aiokafka": aiokafka}

if __name__ == "__main__":
    print(json.dumps(CLIENTS[sys.argv[1]](*sys.argv[2:])))
