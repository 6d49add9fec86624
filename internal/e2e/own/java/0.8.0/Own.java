import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

/**
 * Kafka's own clients of one release behind a line protocol, for tests written in another language. A line of standard input is
 * a command and its arguments, separated by tabs; a line of standard output answers it: "ok" and values, or "error" and a text.
 * One command runs at a time; the program ends when its input does. Topics, Records, Offsets and Measured are compiled from the
 * newest folder beside this one whose clients are not newer than the release.
 */
public final class Own {
    private Own() {
    }

    /** A record to produce; null fields are Kafka's nulls. */
    static final class Item {
        int partition;
        Long timestamp;
        byte[] key;
        byte[] value;
        final List<Map.Entry<String, byte[]>> headers = new ArrayList<>();
    }

    public static void main(String[] args) throws Exception {
        Topics topics = new Topics(args[0], args[1]);
        Records records = new Records(args[0]);
        Offsets offsets = new Offsets(args[0], args[1]);
        Measured measured = new Measured(args[0]);
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
        System.setOut(System.err); // Kafka's tools print where they like
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8), 1 << 20);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] a = line.split("\t", -1);
            try {
                out.println("ok" + run(topics, records, offsets, measured, a));
            } catch (Throwable e) {
                e.printStackTrace();
                out.println("error\t" + e.toString().replace('\n', ' ').replace('\t', ' '));
            }
        }
        // Open transactions are left open on purpose: halting is what the death of a producer looks like.
        Runtime.getRuntime().halt(0);
    }

    private static String run(Topics topics, Records records, Offsets offsets, Measured measured, String[] a) throws Exception {
        switch (a[0]) {
            case "create":
                topics.create(a[1], Integer.parseInt(a[2]), properties(a[3]));
                return "";
            case "grow":
                topics.grow(a[1], Integer.parseInt(a[2]), Integer.parseInt(a[3]));
                return "";
            case "produce":
                List<Item> items = new ArrayList<>();
                for (String text : Arrays.asList(a).subList(3, a.length)) {
                    items.add(item(text));
                }
                records.produce(a[1], properties(a[2]), items);
                return "";
            case "begin":
            case "commit":
            case "abort":
                records.transaction(a[0], properties(a[1]));
                return "";
            case "committed":
                StringBuilder out = new StringBuilder();
                for (long offset : offsets.committed(a[1], a[2], Integer.parseInt(a[3]))) {
                    out.append('\t').append(offset);
                }
                return out.toString();
            case "consume":
                StringBuilder metrics = new StringBuilder();
                for (Map.Entry<String, Double> m : measured.consume(a[1], Integer.parseInt(a[2]), Integer.parseInt(a[3])).entrySet()) {
                    metrics.append('\t').append(m.getKey()).append('=').append(m.getValue());
                }
                return metrics.toString();
            default:
                throw new IllegalArgumentException(a[0]);
        }
    }

    private static Map<String, String> properties(String text) {
        Map<String, String> out = new LinkedHashMap<>();
        for (String pair : text.isEmpty() ? new String[0] : text.split(",")) {
            int eq = pair.indexOf('=');
            out.put(pair.substring(0, eq), pair.substring(eq + 1));
        }
        return out;
    }

    static Properties java(Map<String, String> properties) {
        Properties out = new Properties();
        out.putAll(properties);
        return out;
    }

    /** partition,timestamp,key,value,header=value,...; bytes are base64, "-" is null. */
    private static Item item(String text) {
        String[] f = text.split(",", -1);
        Item out = new Item();
        out.partition = Integer.parseInt(f[0]);
        out.timestamp = f[1].equals("-") ? null : Long.valueOf(f[1]);
        out.key = bytes(f[2]);
        out.value = bytes(f[3]);
        for (int i = 4; i < f.length; i += 2) {
            out.headers.add(new java.util.AbstractMap.SimpleEntry<>(new String(bytes(f[i]), StandardCharsets.UTF_8), bytes(f[i + 1])));
        }
        return out;
    }

    private static byte[] bytes(String text) {
        return text.equals("-") ? null : Base64.getDecoder().decode(text);
    }
}
