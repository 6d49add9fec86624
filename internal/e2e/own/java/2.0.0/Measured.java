import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** What the release's own consumer measures while it reads. */
final class Measured {
    private final String bootstrap;

    Measured(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    /** Reads that many records of a topic; gives the fetch metrics of all partitions together. */
    Map<String, Double> consume(String topic, int partitions, int records) {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("group.id", "measured-" + topic);
        p.put("enable.auto.commit", "false");
        p.put("auto.offset.reset", "earliest");
        Map<String, Double> out = new TreeMap<>();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(p, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            List<TopicPartition> all = new ArrayList<>();
            for (int i = 0; i < partitions; i++) {
                all.add(new TopicPartition(topic, i));
            }
            consumer.assign(all);
            for (int got = 0; got < records;) {
                got += consumer.poll(Duration.ofSeconds(1)).count();
            }
            consumer.poll(Duration.ofMillis(100)); // what was read of the last answer counts now
            for (Metric m : consumer.metrics().values()) {
                if (m.metricName().group().equals("consumer-fetch-manager-metrics") && m.metricName().tags().size() == 1) {
                    out.put(m.metricName().name(), (Double) m.metricValue());
                }
            }
        }
        return out;
    }
}
