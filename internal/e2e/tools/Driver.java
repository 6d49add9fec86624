import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's own clients behind a line protocol, for tests written in another language: each line of standard input is a JSON
 * object {"id", "cmd", ...}; each line of standard output answers one with {"id", "result"} or {"id", "error"}. Commands run at
 * the same time; the program ends when its input does. Keys, values and header values are base64.
 */
public final class Driver {
    static final ObjectMapper JSON = new ObjectMapper();

    private final String bootstrap;
    private final Admin admin;
    private final AdminCommands adminCommands;
    private final Map<String, KafkaProducer<byte[], byte[]>> producers = new ConcurrentHashMap<>();

    private Driver(String bootstrap) {
        this.bootstrap = bootstrap;
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        this.admin = Admin.create(p);
        this.adminCommands = new AdminCommands(admin);
    }

    public static void main(String[] args) throws Exception {
        Driver driver = new Driver(args[0]);
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        ExecutorService workers = Executors.newCachedThreadPool();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode request = JSON.readTree(line);
            workers.execute(() -> driver.answer(request, out));
        }
        // Open transactions are left open on purpose: halting is what the death of a producer looks like.
        Runtime.getRuntime().halt(0);
    }

    private void answer(JsonNode request, PrintStream out) {
        ObjectNode answer = JSON.createObjectNode();
        answer.set("id", request.get("id"));
        try {
            answer.set("result", run(request));
        } catch (Throwable e) {
            Throwable cause = e instanceof ExecutionException && e.getCause() != null ? e.getCause() : e;
            answer.put("error", cause.toString());
        }
        synchronized (out) {
            out.println(answer);
        }
    }

    private JsonNode run(JsonNode r) throws Exception {
        switch (r.get("cmd").asText()) {
            case "produce":
                return produce(r);
            case "tx-begin":
                producer(r).beginTransaction();
                return null;
            case "tx-commit":
                producer(r).commitTransaction();
                return null;
            case "tx-abort":
                producer(r).abortTransaction();
                return null;
            case "flush":
                producer(r).flush();
                return null;
            case "close-producer":
                closeProducer(r);
                return null;
            default:
                return adminCommands.run(r);
        }
    }

    /** One producer per set of properties; one with a transactional.id has its transactions initialised. */
    private KafkaProducer<byte[], byte[]> producer(JsonNode r) {
        return producers.computeIfAbsent(properties(r).toString(), key -> {
            Properties p = new Properties();
            p.put("bootstrap.servers", bootstrap);
            p.put("linger.ms", "0");
            // The idempotent producer can get stuck on OUT_OF_ORDER_SEQUENCE_NUMBER when one of several requests on the way to
            // a young topic fails.
            p.put("max.in.flight.requests.per.connection", "1");
            p.putAll(properties(r));
            KafkaProducer<byte[], byte[]> made = new KafkaProducer<>(p, new ByteArraySerializer(), new ByteArraySerializer());
            if (p.containsKey("transactional.id")) {
                made.initTransactions();
            }
            return made;
        });
    }

    private void closeProducer(JsonNode r) {
        KafkaProducer<byte[], byte[]> producer = producers.remove(properties(r).toString());
        if (producer != null) {
            producer.close();
        }
    }

    private static Map<String, String> properties(JsonNode r) {
        Map<String, String> properties = new java.util.TreeMap<>();
        if (r.hasNonNull("properties")) {
            r.get("properties").properties().forEach(e -> properties.put(e.getKey(), e.getValue().asText()));
        }
        return properties;
    }

    /** Sends all records, waits for all answers: {"partitions": [...], "offsets": [...]} in the order of the records. */
    private JsonNode produce(JsonNode r) throws Exception {
        KafkaProducer<byte[], byte[]> producer = producer(r);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (JsonNode record : r.get("records")) {
            sent.add(producer.send(record(record)));
        }
        producer.flush();
        ObjectNode result = JSON.createObjectNode();
        ArrayNode partitions = result.putArray("partitions");
        ArrayNode offsets = result.putArray("offsets");
        for (Future<RecordMetadata> f : sent) {
            RecordMetadata m = f.get();
            partitions.add(m.partition());
            offsets.add(m.offset());
        }
        return result;
    }

    private static ProducerRecord<byte[], byte[]> record(JsonNode n) throws Exception {
        Integer partition = n.hasNonNull("partition") ? n.get("partition").asInt() : null;
        Long timestamp = n.hasNonNull("timestamp") ? n.get("timestamp").asLong() : null;
        ProducerRecord<byte[], byte[]> record =
            new ProducerRecord<>(n.get("topic").asText(), partition, timestamp, bytes(n.get("key")), bytes(n.get("value")));
        if (n.hasNonNull("headers")) {
            for (JsonNode h : n.get("headers")) {
                record.headers().add(h.get("key").asText(), bytes(h.get("value")));
            }
        }
        return record;
    }

    private static byte[] bytes(JsonNode n) throws Exception {
        return n == null || n.isNull() ? null : n.binaryValue();
    }
}
