import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;

/** A Kafka consumer in Java: `KafkaReader BOOTSTRAP GROUP TOPIC [SETTING=VALUE ...]`. */
public class KafkaReader {
    public static void main(String[] words) {
        var settings = new Properties();
        settings.put("bootstrap.servers", words[0]);
        settings.put("group.id", words[1]);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        for (var word : List.of(words).subList(3, words.length)) {
            settings.put(word.split("=", 2)[0], word.split("=", 2)[1]);
        }
        var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        var main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            consumer.wakeup();
            try {
                main.join();
            } catch (InterruptedException ignored) {
                // The process ends anyway.
            }
        }));
        var mine = new TreeSet<Integer>();
        consumer.subscribe(List.of(words[2]), new ConsumerRebalanceListener() {
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                partitions.forEach(one -> mine.add(one.partition()));
                System.out.println("assigned " + mine.toString().replaceAll("[^0-9 ]", ""));
            }

            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                partitions.forEach(one -> mine.remove(one.partition()));
                System.out.println("assigned " + mine.toString().replaceAll("[^0-9 ]", ""));
            }
        });
        try (consumer) {
            while (true) {
                for (var record : consumer.poll(Duration.ofSeconds(1))) {
                    System.out.println(
                        record.partition() + " " + record.offset() + " " + record.key() + " " + record.value());
                }
                try {
                    consumer.commitSync();
                } catch (RetriableException | RebalanceInProgressException | CommitFailedException problem) {
                    // The coordinator is away, or a rebalance has begun or is over: the next commit includes what
                    // this one did not, or whoever has the partition now reads it again.
                    System.err.println(problem);
                }
            }
        } catch (WakeupException told) {
            // SIGTERM: leave the group.
        }
    }
}
