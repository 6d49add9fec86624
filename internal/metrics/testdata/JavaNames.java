import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Prints what Java's consumer measures: one metric a line, its group, name and the names of its tags.
 * Arguments: bootstrap server, and a topic that has records. The classic group protocol.
 */
public final class JavaNames {
    public static void main(String[] args) {
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        p.put("group.id", "names");
        p.put("auto.offset.reset", "earliest");
        p.put("key.deserializer", ByteArrayDeserializer.class.getName());
        p.put("value.deserializer", ByteArrayDeserializer.class.getName());
        TreeSet<String> lines = new TreeSet<>();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(p)) {
            consumer.subscribe(List.of(args[1]));
            for (int read = 0; read == 0; ) {
                read = consumer.poll(Duration.ofSeconds(1)).count();
            }
            consumer.commitSync();
            consumer.poll(Duration.ofSeconds(1));
            for (MetricName name : consumer.metrics().keySet()) {
                lines.add(String.join("\t", name.group(), name.name(), String.join(",", new TreeSet<>(name.tags().keySet()))));
            }
        }
        lines.forEach(System.out::println);
    }
}
