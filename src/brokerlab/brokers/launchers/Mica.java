import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.dromara.mica.mqtt.core.server.MqttServer;
import org.dromara.mica.mqtt.core.server.MqttServerCreator;

/**
 * mica-mqtt in the foreground: Mica CONFIGURATION_FILE.
 *
 * <p>The file has properties: host, port and transport (tcp, ws), and where there are some, users: a file of names
 * and passwords, each word in Base64.
 */
public final class Mica {

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        try (var reader = Files.newBufferedReader(Path.of(arguments[0]))) {
            settings.load(reader);
        }
        MqttServerCreator creator = MqttServer.create().nodeName("brokerlab");
        listen(creator, settings);
        if (settings.containsKey("users")) {
            Map<String, String> passwords = passwords(Path.of(settings.getProperty("users")));
            creator.authHandler((context, id, client, user, password) ->
                password != null && password.equals(passwords.get(user)));
        }
        MqttServer broker = creator.build();
        if (!broker.start()) {
            System.exit(1);
        }
        Runtime.getRuntime().addShutdownHook(new Thread(broker::stop));
        new CountDownLatch(1).await();
    }

    private static void listen(MqttServerCreator creator, Properties settings) {
        String host = settings.getProperty("host");
        int port = Integer.parseInt(settings.getProperty("port"));
        switch (settings.getProperty("transport")) {
            case "tcp" -> creator.enableMqtt(builder -> builder.serverNode(host, port).build());
            case "ws" -> creator.enableMqttWs(builder -> builder.serverNode(host, port).build());
            default -> throw new IllegalArgumentException(settings.getProperty("transport"));
        }
    }

    private static Map<String, String> passwords(Path file) throws Exception {
        Map<String, String> passwords = new HashMap<>();
        for (String line : Files.readAllLines(file)) {
            String[] words = line.split(" ", -1);
            passwords.put(decoded(words[0]), decoded(words[1]));
        }
        return passwords;
    }

    private static String decoded(String word) {
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }
}
