import java.io.PrintStream;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.util.*;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.security.JaasContext;

/**
 * Prints what Java reads from properties and from JAAS lines, one JSON object a line, and
 * which keys its clients know. With the jars of kafka-clients 4.4.0 and slf4j-api on CP:
 *
 *   java -cp "$CP" ConfigVectors.java properties | gzip -9n > properties.jsonl.gz
 *   java -cp "$CP" ConfigVectors.java jaas | gzip -9n > jaas.jsonl.gz
 *   java -cp "$CP" ConfigVectors.java keys > ../../../testdata/config/kafka-4.4.0-keys.txt
 */
public class ConfigVectors {
    static final String[] PROPERTIES = {
        "", "\n", "a", "a=", "=a", ":", "a=b", "a:b", "a b", "a = b", "a : b", "a   b", "a\tb", "a\fb", "a==b", "a=:b", "a :=b", "a = = b",
        "  a=b  ", "\t\f a=b", "a=b c ", "#c\na=b", "!c\na=b", "  # c\na=b", "a=b#c", "a=b !c", "# c \\\na=b", "a=b\r\nc=d\rx=y\n\n",
        "a=b\\\nc", "a=b\\\r\n   c", "a=b\\\r\tc", "a=b\\\n\nc=d", "a=b\\\n#c", "\\\n#c\na=b", "\\\na=b", "a\\\nb=c", "a=b\\\\\nc=d", "a=b\\\\\\\nc=d",
        "a=b\\", "a\\", "\\", "\\\\", "a=b\\\\", "a\\=b=c", "a\\:b:c", "a\\ b c", "a\\\\=b", "a\\\tb=c", "\\#a=b", "\\!a=b", "a=\\#b", "a=\\=", "a=\\ b",
        "a=\\t\\n\\r\\f|\\b\\a\\0\\\"\\'", "a=\\u0041\\u00e4\\u20ac", "\\u0061\\u003d=b", "a=\\ud83d\\ude00", "a=\\ud83dx", "a=\\ude00\\ud83d", "a=\\u00E4", "a=\\u00g0",
        "a=\\u004", "a=\\u", "a=\\U0041", "\\u=b", "a=x\\u0020", "a=\\u0020x", "a=gr\u00f6\u00dfe \u20ac \ud83d\ude00", "\u00e4=\u00f6", "\ufeffa=b",
        "a=1\na=2", "a=\\\n   \\\n  b", "a=b\\\n", "a=b\\\n   ", "a=b\\\n   \nc=d", "a=b\\\r", "a\0b=c\0d", "a=b\u0085c=d", "a=b\u2028c", "a\u00a0b=c", "a\u000bb=c",
        "ssl.keystore.key=-----BEGIN PRIVATE KEY-----\\\nAAAA\\\n-----END PRIVATE KEY-----", "k=-----BEGIN X-----\\n\\\n  QUJD\\n\\\n  -----END X-----",
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\\n  username=\"alice\" \\\n  password=\"a\\\\\"b\";",
    };
    static final String[] PIECES = {
        "a", "b", "key", ".", "=", ":", " ", "  ", "\t", "\f", "\n", "\r", "\r\n", "\\", "\\\\", "\\\n", "\\\r\n  ", "#", "!", "\\u0041", "\\u00", "\\ud83d", "\\ude00",
        "\\t", "\\n", "\\=", "\\:", "\\ ", "\u00e4", "\u20ac", "\ud83d\ude00", "\"", "'", ";", "value", "\n\n", "\n#", "\n  ", "\u0000", "\u0085", "\u00a0",
    };
    static final String PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule";
    static final String[] JAAS = {
        "", " ", ";", PLAIN, PLAIN + " required", PLAIN + " required;", PLAIN + " required ;", PLAIN + " REQUIRED;", PLAIN + " requisite;", PLAIN + " optional;",
        PLAIN + " sufficient;", PLAIN + " maybe;", PLAIN + " required username=\"alice\" password=\"secret\";", PLAIN + " required username='alice' password='s\"x';",
        PLAIN + " required username=alice password=secret;", PLAIN + " required username = \"alice\";", PLAIN + " required\n\tusername=\"a\"\r\n password=\"b\"\n;\n",
        PLAIN + " required username=\"alice\"", PLAIN + " required username=;", PLAIN + " required username;", PLAIN + " required username=\"a\"; ;", PLAIN + " required =x;",
        PLAIN + " required username=5;", PLAIN + " required username=\"5\";", PLAIN + " required username=a5;", PLAIN + " required username=5a;", PLAIN + " required username=-a;",
        PLAIN + " required username=-5;", PLAIN + " required username=.5;", PLAIN + " required username=a.b-c_d$e*f;", PLAIN + " required username=a/b;", PLAIN + " required username=a//b;\n;",
        PLAIN + " required /* c */ username=a; // end", PLAIN + " required // c\n username=a;", PLAIN + " required username=a /* c\n c */ ;", PLAIN + " required username=/x\n;",
        PLAIN + " required password=\"a\\\"b\\\\c\\td\\n\\101\\47x\\400\\8\\q\\e\";", PLAIN + " required password=\"a'b\";", PLAIN + " required password='a\\'b';", PLAIN + " required password=\"\";",
        PLAIN + " required password=\"a\nb\";", PLAIN + " required password=\"unended;", PLAIN + " required password=\"a\\\nb\";", PLAIN + " required password=\"gr\u00f6\u00dfe \u20ac\ud83d\ude00\";",
        PLAIN + " required password=gr\u00f6\u00dfe;", PLAIN + " required password=\u20ac;", PLAIN + " required password=a\u20acb;", PLAIN + " required password=a#b;", PLAIN + " required password=a,b;",
        PLAIN + " required password=a password=b;", PLAIN + " required a=b c=d; " + PLAIN + " required e=f;", "required;", "\"" + PLAIN + "\" required a=b;", PLAIN + " \"required\" \"a\"=\"b\";",
        "5 required;", PLAIN + " 5;", PLAIN + " required 5=a;", "; required;", PLAIN + " required a=;", PLAIN + " required a==b;", PLAIN + " required a=\"b\"c=d;", PLAIN + " required a=b,c=d;",
        PLAIN + " required a=true useKeyTab=true storeKey=true keyTab=\"/etc/kafka.keytab\" principal=\"client@EXAMPLE.COM\";", PLAIN + " required a=1e5;", PLAIN + " required a=1.2.3;", PLAIN + " required a=-;",
        PLAIN + " required a=..;", PLAIN + " required a=.;", PLAIN + " required a=\\x;", PLAIN + " required a=\"\\\\\";", PLAIN + " required a=\"\\u0041\";", PLAIN + " required a=\"\\7\\77\\377\\3777\";",
        PLAIN + " required a=b/;\n;", PLAIN + " required a=b/*;", PLAIN + " required a=\"x\ty\";", PLAIN + " required a=\"x\ry\";", PLAIN + "/**/required a=b;", PLAIN + " required a=b;;",
    };
    static final String[] TOKENS = {
        "M ", "required ", "a", "b", "user", "=", "=", "\"", "'", ";", ";", " ", "\n", "5", "-", ".", "_", "$", "*", "/", "//", "/*", "*/", "\\", "\\\"", "\\n", "\\101", "\u00e4", "\u20ac", "x y", "\r", ",", "#",
    };

    public static void main(String[] args) {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        Random random = new Random(20261129);
        switch (args[0]) {
            case "properties" -> {
                for (String text : PROPERTIES) out.println(properties(text));
                for (int i = 0; i < 3000; i++) out.println(properties(text(random, "", PIECES, 14)));
            }
            case "jaas" -> {
                for (String text : JAAS) out.println(jaas(text));
                for (int i = 0; i < 1000; i++) out.println(jaas(text(random, "M required ", TOKENS, 12)));
                for (int i = 0; i < 2000; i++) out.println(jaas(options(random)));
            }
            case "keys" -> {
                keys(out, "consumer", ConsumerConfig.configNames());
                keys(out, "producer", ProducerConfig.configNames());
                keys(out, "admin", AdminClientConfig.configNames());
            }
        }
        out.flush();
    }

    static String text(Random random, String start, String[] pieces, int most) {
        StringBuilder b = new StringBuilder(start);
        for (int n = random.nextInt(most) + 1; n > 0; n--) b.append(pieces[random.nextInt(pieces.length)]);
        return b.toString();
    }

    static String options(Random random) {
        StringBuilder b = new StringBuilder("M required");
        for (int n = random.nextInt(3); n > 0; n--) {
            String value = text(random, "", TOKENS, 5);
            switch (random.nextInt(4)) {
                case 0 -> value = '"' + value + '"';
                case 1 -> value = "'" + value + "'";
                case 2 -> value = "a" + value.replace("\"", "").replace(";", "");
                default -> { }
            }
            b.append(random.nextInt(8) == 0 ? "/* x */" : " ").append("user").append(n);
            b.append(random.nextInt(4) == 0 ? " = " : "=").append(value);
        }
        return b.append(random.nextInt(8) == 0 ? "" : ";").append(random.nextInt(8) == 0 ? " // end" : "").toString();
    }

    static String properties(String text) {
        Properties p = new Properties();
        try {
            p.load(new StringReader(text));
        } catch (Exception e) {
            return "{\"text\":" + quote(text) + ",\"error\":true}";
        }
        return "{\"text\":" + quote(text) + ",\"want\":" + object(new TreeMap<Object, Object>(p)) + "}";
    }

    static String jaas(String text) {
        List<String> entries = new ArrayList<>();
        try {
            Map<String, Object> configs = Map.of("sasl.jaas.config", new Password(text));
            for (AppConfigurationEntry e : JaasContext.loadClientContext(configs).configurationEntries())
                entries.add("{\"module\":" + quote(e.getLoginModuleName()) + ",\"options\":" + object(new TreeMap<Object, Object>(e.getOptions())) + "}");
        } catch (Exception e) {
            return "{\"text\":" + quote(text) + ",\"error\":true}";
        }
        return "{\"text\":" + quote(text) + ",\"want\":[" + String.join(",", entries) + "]}";
    }

    static void keys(PrintStream out, String client, Set<String> names) {
        for (String name : new TreeSet<>(names)) out.println(client + " " + name);
    }

    static String object(Map<Object, Object> map) {
        List<String> fields = new ArrayList<>();
        map.forEach((k, v) -> fields.add(quote((String) k) + ":" + quote((String) v)));
        return "{" + String.join(",", fields) + "}";
    }

    static String quote(String s) {
        if (s == null) return "null";
        StringBuilder b = new StringBuilder("\"");
        for (char c : s.toCharArray()) {
            if (c >= ' ' && c < 127 && c != '"' && c != '\\') b.append(c);
            else b.append(String.format("\\u%04x", (int) c));
        }
        return b.append('"').toString();
    }
}
