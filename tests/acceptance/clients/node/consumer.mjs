// A Kafka consumer in Node, by kafkajs: `consumer.mjs BOOTSTRAP GROUP TOPIC SESSION_MS`.
import { Kafka, logLevel } from "kafkajs";

const [bootstrap, groupId, topic, session] = process.argv.slice(2);
const kafka = new Kafka({ brokers: bootstrap.split(","), logLevel: logLevel.WARN });
const consumer = kafka.consumer({ groupId, sessionTimeout: Number(session) });
consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
  console.log("assigned", ...(payload.memberAssignment[topic] ?? []));
});
consumer.on(consumer.events.CRASH, ({ payload }) => {
  if (!payload.restart) process.exit(1);
});
process.on("SIGTERM", async () => {
  await consumer.disconnect();
  process.exit(0);
});
await consumer.connect();
await consumer.subscribe({ topics: [topic], fromBeginning: true });
await consumer.run({
  eachMessage: async ({ partition, message }) => {
    console.log(partition, message.offset, message.key.toString(), message.value.toString());
  },
});
