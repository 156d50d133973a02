import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;

/** What an operator asks, by Java's Admin: `Admins BOOTSTRAP TOPIC FULL`; prints one JSON object. */
public class Admins {
    private final Admin admin;
    private final String topic;

    private Admins(Admin admin, String topic) {
        this.admin = admin;
        this.topic = topic;
    }

    public static void main(String[] words) throws Exception {
        try (var admin = Admin.create(Map.of("bootstrap.servers", (Object) words[0]))) {
            System.out.println(new Admins(admin, words[1]).all(words[2]));
        }
    }

    private String all(String full) throws Exception {
        var nodes = new TreeSet<Integer>();
        for (Node node : admin.describeCluster().nodes().get()) nodes.add(node.id());
        admin.createTopics(List.of(new NewTopic(topic, 2, (short) 2))).all().get();
        var created = partitions(2);
        admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(4))).all().get();
        int grown = partitions(4).partitions().size();
        var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        var set = new AlterConfigOp(new ConfigEntry("retention.ms", "86400000"), AlterConfigOp.OpType.SET);
        admin.incrementalAlterConfigs(Map.of(resource, List.of(set))).all().get();
        eventually(() -> retention(resource).value().equals("86400000"));
        var config = retention(resource);
        var first = new TopicPartition(topic, 0);
        var target = another(replicas());
        admin.alterPartitionReassignments(Map.of(first, Optional.of(new NewPartitionReassignment(target))))
            .all().get();
        eventually(() -> replicas().equals(target) && admin.listPartitionReassignments().reassignments().get().isEmpty());
        var elected = admin.electLeaders(ElectionType.PREFERRED, Set.of(first)).partitions().get().get(first);
        var place = new TopicPartition(full, 0);
        var earliest = admin.listOffsets(Map.of(place, OffsetSpec.earliest())).partitionResult(place).get();
        var latest = admin.listOffsets(Map.of(place, OffsetSpec.latest())).partitionResult(place).get();
        admin.deleteTopics(List.of(topic)).all().get();
        eventually(() -> !admin.listTopics().names().get().contains(topic));
        return """
            {"cluster": %s, "created": %s, "grown": %d, "config": "%s", "moved": true, "elected": "%s",
             "ends": [%d, %d], "deleted": true}""".formatted(
                nodes,
                created.partitions().stream().map(one -> one.replicas().size()).toList(),
                grown,
                config.value(),
                elected.map(problem -> problem.getClass().getSimpleName()).orElse(""),
                earliest.offset(),
                latest.offset());
    }

    /** Doors hear a moment later of what another one was asked. */
    private ConfigEntry retention(ConfigResource resource) throws Exception {
        return admin.describeConfigs(List.of(resource)).all().get().get(resource).get("retention.ms");
    }

    private static void eventually(Callable<Boolean> condition) throws Exception {
        for (long end = System.nanoTime() + 60_000_000_000L; System.nanoTime() < end; Thread.sleep(100)) {
            try {
                if (condition.call()) return;
            } catch (ExecutionException early) {
                if (!(early.getCause() instanceof UnknownTopicOrPartitionException)) throw early;
            }
        }
        throw new IllegalStateException("not within a minute");
    }

    private TopicDescription partitions(int count) throws Exception {
        var found = new TopicDescription[1];
        eventually(() -> {
            found[0] = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
            return found[0].partitions().size() == count;
        });
        return found[0];
    }

    private List<Integer> replicas() throws Exception {
        return partitions(4).partitions().get(0).replicas().stream().map(Node::id).collect(Collectors.toList());
    }

    /** As many brokers of 1, 2 and 3, one of them new and first. */
    private static List<Integer> another(List<Integer> replicas) {
        int added = List.of(1, 2, 3).stream().filter(one -> !replicas.contains(one)).findFirst().orElseThrow();
        return List.of(added, replicas.get(1));
    }
}
