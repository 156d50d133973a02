// What an operator asks, by kafkajs: `admin.mjs BOOTSTRAP TOPIC FULL`; prints one JSON object.
import kafkajs from "kafkajs";

const { ConfigResourceTypes, Kafka, logLevel } = kafkajs;
const [bootstrap, topic, full] = process.argv.slice(2);
const admin = new Kafka({ brokers: bootstrap.split(","), logLevel: logLevel.ERROR }).admin();

// Doors hear a moment later of what another one was asked.
async function eventually(condition) {
  for (const end = Date.now() + 60_000; Date.now() < end; await new Promise((done) => setTimeout(done, 100))) {
    const found = await condition();
    if (found) return found;
  }
  throw new Error("not within a minute");
}

async function partitions(count) {
  return eventually(async () => {
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] }).catch((problem) => {
      if (problem.type === "UNKNOWN_TOPIC_OR_PARTITION") return { topics: [{ partitions: [] }] };
      throw problem;
    });
    const found = topics[0].partitions.sort((a, b) => a.partitionId - b.partitionId);
    return found.length === count ? found : undefined;
  });
}

await admin.connect();
const told = {};
told.cluster = (await admin.describeCluster()).brokers.map((one) => one.nodeId).sort((a, b) => a - b);
await admin.createTopics({ topics: [{ topic, numPartitions: 2, replicationFactor: 2 }] });
told.created = (await partitions(2)).map((one) => one.replicas.length);
await admin.createPartitions({ topicPartitions: [{ topic, count: 4 }] });
told.grown = (await partitions(4)).length;
const resource = { type: ConfigResourceTypes.TOPIC, name: topic };
const configEntries = [{ name: "retention.ms", value: "86400000" }];
await admin.alterConfigs({ validateOnly: false, resources: [{ ...resource, configEntries }] });
await eventually(async () => {
  const { resources } = await admin.describeConfigs({ resources: [resource] });
  told.config = resources[0].configEntries.find((one) => one.configName === "retention.ms").configValue;
  return told.config === "86400000";
});
const before = (await partitions(4))[0].replicas;
const target = [[1, 2, 3].find((one) => !before.includes(one)), before[1]];
await admin.alterPartitionReassignments({
  topics: [{ topic, partitionAssignment: [{ partition: 0, replicas: target }] }],
});
await eventually(async () => {
  const moving = await admin.listPartitionReassignments({});
  return !moving.topics.length && String((await partitions(4))[0].replicas) === String(target);
});
told.moved = true;
const ends = (await admin.fetchTopicOffsets(full)).find((one) => one.partition === 0);
told.ends = [Number(ends.low), Number(ends.high)];
await admin.deleteTopics({ topics: [topic] });
await eventually(async () => !(await admin.listTopics()).includes(topic));
told.deleted = true;
await admin.disconnect();
console.log(JSON.stringify(told));
