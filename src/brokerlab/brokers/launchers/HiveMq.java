import com.codahale.metrics.MetricRegistry;
import com.hivemq.configuration.service.InternalConfigurations;
import com.hivemq.embedded.EmbeddedExtension;
import com.hivemq.embedded.EmbeddedHiveMQ;
import com.hivemq.extension.sdk.api.ExtensionMain;
import com.hivemq.extension.sdk.api.auth.SimpleAuthenticator;
import com.hivemq.extension.sdk.api.auth.parameter.SimpleAuthInput;
import com.hivemq.extension.sdk.api.auth.parameter.SimpleAuthOutput;
import com.hivemq.extension.sdk.api.auth.parameter.TopicPermission.MqttActivity;
import com.hivemq.extension.sdk.api.packets.auth.DefaultAuthorizationBehaviour;
import com.hivemq.extension.sdk.api.packets.connect.ConnackReasonCode;
import com.hivemq.extension.sdk.api.parameter.ExtensionStartInput;
import com.hivemq.extension.sdk.api.parameter.ExtensionStartOutput;
import com.hivemq.extension.sdk.api.parameter.ExtensionStopInput;
import com.hivemq.extension.sdk.api.parameter.ExtensionStopOutput;
import com.hivemq.extension.sdk.api.services.Services;
import com.hivemq.extension.sdk.api.services.builder.Builders;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import javax.xml.parsers.DocumentBuilderFactory;

/**
 * HiveMQ in the foreground: HiveMq CONFIGURATION_FOLDER DATA_FOLDER.
 *
 * <p>Properties: brokerlab.users names a file of users and passwords, brokerlab.rules one of what they may do
 * ("read" or "write", and a filter), each word in Base64; brokerlab.qos0Bytes is how much may wait for one client at
 * QoS 0.
 */
public final class HiveMq {

    public static void main(String[] arguments) throws Exception {
        // HiveMQ takes a file that it cannot read for none, and listens on every address.
        Path configuration = Path.of(arguments[0]);
        DocumentBuilderFactory.newInstance().newDocumentBuilder().parse(configuration.resolve("config.xml").toFile());
        Path data = Path.of(arguments[1]);
        Path extensions = Files.createDirectories(data.resolve("extensions"));
        Integer qos0Bytes = Integer.getInteger("brokerlab.qos0Bytes");
        if (qos0Bytes != null) {
            InternalConfigurations.QOS_0_MEMORY_LIMIT_PER_CLIENT_BYTES.set(qos0Bytes);
        }
        var builder = EmbeddedHiveMQ.builder()
            .withConfigurationFolder(configuration)
            .withDataFolder(data)
            .withExtensionsFolder(extensions);
        List<String[]> users = rows("brokerlab.users");
        List<String[]> rules = rows("brokerlab.rules");
        if (!users.isEmpty() || !rules.isEmpty()) {
            builder.withEmbeddedExtension(EmbeddedExtension.builder()
                .withId("access").withName("access").withVersion("1").withAuthor("brokerlab")
                .withPriority(0).withStartPriority(1000)
                .withExtensionMain(new Access(users, rules))
                .build());
        }
        EmbeddedHiveMQ broker = builder.build();
        try {
            broker.start().join();
        } catch (Throwable problem) {
            problem.printStackTrace();
            System.exit(1);
        }
        Runtime.getRuntime().addShutdownHook(new Thread(() -> broker.stop().join()));
        CounterPage.serve(() -> counters(broker.getMetricRegistry()));
        new CountDownLatch(1).await();
    }

    private static Map<String, Number> counters(MetricRegistry registry) {
        Map<String, Number> counters = new HashMap<>();
        registry.getCounters().forEach((name, counter) -> counters.put(name, counter.getCount()));
        registry.getGauges().forEach((name, gauge) -> {
            if (gauge.getValue() instanceof Number number) {
                counters.put(name, number);
            }
        });
        return counters;
    }

    private static List<String[]> rows(String property) throws Exception {
        List<String[]> rows = new ArrayList<>();
        String file = System.getProperty(property);
        if (file != null) {
            for (String line : Files.readAllLines(Path.of(file))) {
                String[] row = line.split(" ", -1);
                for (int index = 0; index < row.length; index++) {
                    row[index] = new String(Base64.getDecoder().decode(row[index]), StandardCharsets.UTF_8);
                }
                rows.add(row);
            }
        }
        return rows;
    }

    /** Lets users in by their passwords, and permits topics. */
    private static final class Access implements ExtensionMain {
        private final Map<String, String> passwords = new HashMap<>();
        private final List<String[]> rules;

        Access(List<String[]> users, List<String[]> rules) {
            users.forEach(user -> passwords.put(user[0], user[1]));
            this.rules = rules;
        }

        @Override
        public void extensionStart(ExtensionStartInput input, ExtensionStartOutput output) {
            SimpleAuthenticator authenticator = this::decide;
            Services.securityRegistry().setAuthenticatorProvider(unused -> authenticator);
        }

        @Override
        public void extensionStop(ExtensionStopInput input, ExtensionStopOutput output) {
        }

        private void decide(SimpleAuthInput input, SimpleAuthOutput output) {
            var packet = input.getConnectPacket();
            Optional<String> password = packet.getPassword().map(bytes -> StandardCharsets.UTF_8.decode(bytes).toString());
            if (!passwords.isEmpty() && !isKnown(packet.getUserName(), password)) {
                output.failAuthentication(ConnackReasonCode.NOT_AUTHORIZED, "unknown user or wrong password");
                return;
            }
            if (!rules.isEmpty()) {
                var permissions = output.getDefaultPermissions();
                permissions.setDefaultBehaviour(DefaultAuthorizationBehaviour.DENY);
                for (String[] rule : rules) {
                    permissions.add(Builders.topicPermission()
                        .topicFilter(rule[1])
                        .activity(rule[0].equals("read") ? MqttActivity.SUBSCRIBE : MqttActivity.PUBLISH)
                        .build());
                }
            }
            output.authenticateSuccessfully();
        }

        private boolean isKnown(Optional<String> name, Optional<String> password) {
            return password.isPresent() && password.equals(name.map(passwords::get));
        }
    }
}
