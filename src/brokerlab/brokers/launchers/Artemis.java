import java.lang.management.ManagementFactory;
import java.util.HashMap;
import java.util.Map;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/** Artemis as its own boot class starts it, with a page of counters beside it: Artemis ARGUMENTS. */
public final class Artemis {
    private static final String BROKER = "org.apache.activemq.artemis:broker=\"brokerlab\"";

    public static void main(String[] arguments) throws Throwable {
        CounterPage.serve(Artemis::counters);
        org.apache.activemq.artemis.boot.Artemis.main(arguments);
    }

    /** What its management says: of the whole broker, and summed over the addresses of clients. */
    private static Map<String, Number> counters() throws JMException {
        MBeanServer management = ManagementFactory.getPlatformMBeanServer();
        Map<String, Number> counters = new HashMap<>();
        ObjectName broker = new ObjectName(BROKER);
        for (String name : new String[] {"ConnectionCount", "TotalConsumerCount"}) {
            add(counters, management, broker, name);
        }
        for (ObjectName address : management.queryNames(new ObjectName(BROKER + ",component=addresses,address=*"), null)) {
            if (isOfClients(address)) {
                add(counters, management, address, "RoutedMessageCount");
                add(counters, management, address, "UnRoutedMessageCount");
            }
        }
        String queues = BROKER + ",component=addresses,subcomponent=queues,*";
        for (ObjectName queue : management.queryNames(new ObjectName(queues), null)) {
            if (isOfClients(queue)) {
                add(counters, management, queue, "MessagesAdded");
                add(counters, management, queue, "MessagesAcknowledged");
                add(counters, management, queue, "MessageCount");
            }
        }
        return counters;
    }

    private static boolean isOfClients(ObjectName name) {
        String address = ObjectName.unquote(name.getKeyProperty("address"));
        return !address.startsWith("$sys") && !address.startsWith("activemq.");
    }

    private static void add(Map<String, Number> sums, MBeanServer management, ObjectName object, String name)
        throws JMException {
        long number = ((Number) management.getAttribute(object, name)).longValue();
        sums.merge(name, number, (one, other) -> one.longValue() + other.longValue());
    }
}
