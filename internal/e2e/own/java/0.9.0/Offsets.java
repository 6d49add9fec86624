import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Committed offsets as the release's own consumer tells them. */
final class Offsets {
    private final String bootstrap;

    Offsets(String bootstrap, String zookeeper) {
        this.bootstrap = bootstrap;
    }

    /** -1 where there is none. */
    long[] committed(String group, String topic, int partitions) {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("group.id", group);
        p.put("enable.auto.commit", "false");
        long[] offsets = new long[partitions];
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(p, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            for (int i = 0; i < partitions; i++) {
                OffsetAndMetadata o = consumer.committed(new TopicPartition(topic, i));
                offsets[i] = o == null ? -1 : o.offset();
            }
        }
        return offsets;
    }
}
