import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes.StringSerde;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers;

/** Counts words by Kafka Streams: `WordCount BOOTSTRAP APPLICATION TOPIC COUNTS [SETTING=VALUE ...]`. */
public class WordCount {
    public static void main(String[] words) throws InterruptedException {
        var settings = new Properties();
        settings.put("bootstrap.servers", words[0]);
        settings.put("application.id", words[1]);
        settings.put("default.key.serde", StringSerde.class.getName());
        settings.put("default.value.serde", StringSerde.class.getName());
        // The counts are kept in memory; what outlives the process is their changelog.
        settings.put("dsl.store.suppliers.class", InMemoryDslStoreSuppliers.class.getName());
        for (var word : List.of(words).subList(4, words.length)) {
            settings.put(word.split("=", 2)[0], word.split("=", 2)[1]);
        }
        var builder = new StreamsBuilder();
        builder.<String, String>stream(words[2])
            .flatMapValues(line -> List.of(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.as("words"))
            .count(Materialized.as("counts"))
            .toStream()
            .mapValues(count -> String.valueOf(count))
            .to(words[3]);
        var streams = new KafkaStreams(builder.build(settings), settings);
        var ended = new CountDownLatch(1);
        streams.setStateListener((now, before) -> {
            System.out.println("state " + now);
            if (now == KafkaStreams.State.ERROR || now == KafkaStreams.State.NOT_RUNNING) {
                ended.countDown();
            }
        });
        streams.setUncaughtExceptionHandler(problem -> {
            for (Throwable cause = problem; cause != null; cause = cause.getCause()) {
                System.out.println("failed " + cause.getMessage());
            }
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.setGlobalStateRestoreListener(new StateRestoreListener() {
            public void onRestoreStart(TopicPartition partition, String store, long first, long end) {}

            public void onBatchRestored(TopicPartition partition, String store, long last, long records) {}

            public void onRestoreEnd(TopicPartition partition, String store, long records) {
                System.out.println("restored " + partition + " " + records);
            }
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(10))));
        streams.start();
        ended.await();
        System.exit(1);
    }
}
