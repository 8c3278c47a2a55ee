import org.apache.activemq.broker.BrokerFactory;
import org.apache.activemq.broker.BrokerService;

/** ActiveMQ Classic in the foreground: ActiveMq CONFIGURATION_FILE. */
public final class ActiveMq {

    public static void main(String[] arguments) throws Exception {
        try {
            BrokerService broker = BrokerFactory.createBroker("xbean:file:" + arguments[0]);
            broker.setUseShutdownHook(true);
            broker.start();
            broker.waitUntilStopped();
        } catch (Throwable problem) {
            problem.printStackTrace();
            System.exit(1);
        }
    }
}
