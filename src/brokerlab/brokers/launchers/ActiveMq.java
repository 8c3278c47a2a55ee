import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.apache.activemq.advisory.AdvisorySupport;
import org.apache.activemq.broker.BrokerFactory;
import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.broker.region.RegionBroker;
import org.apache.activemq.command.BrokerInfo;

/** ActiveMQ Classic in the foreground: ActiveMq CONFIGURATION_FILE. */
public final class ActiveMq {

    public static void main(String[] arguments) throws Exception {
        try {
            BrokerService broker = BrokerFactory.createBroker("xbean:file:" + arguments[0]);
            broker.setUseShutdownHook(true);
            broker.start();
            RegionBroker regions = (RegionBroker) broker.getRegionBroker();
            CounterPage.serve(() -> counters(broker, regions));
            broker.waitUntilStopped();
        } catch (Throwable problem) {
            problem.printStackTrace();
            System.exit(1);
        }
    }

    /** The sums over all topics but those on which ActiveMQ tells of itself. */
    private static Map<String, Number> counters(BrokerService broker, RegionBroker regions) {
        Map<String, Number> sums = new HashMap<>();
        regions.getTopicRegion().getDestinationMap().forEach((name, destination) -> {
            if (!AdvisorySupport.isAdvisoryTopic(name)) {
                var statistics = destination.getDestinationStatistics();
                add(sums, "enqueues", statistics.getEnqueues().getCount());
                add(sums, "dequeues", statistics.getDequeues().getCount());
                add(sums, "dispatched", statistics.getDispatched().getCount());
                add(sums, "expired", statistics.getExpired().getCount());
                add(sums, "inflight", statistics.getInflight().getCount());
                add(sums, "consumers", statistics.getConsumers().getCount());
            }
        });
        if (broker.getTransportConnectorByName("nodes") != null) {
            var others = Arrays.stream(regions.getPeerBrokerInfos()).map(BrokerInfo::getBrokerName);
            add(sums, "members", 1 + others.distinct().count());
        }
        add(sums, "connections", broker.getTransportConnectorByName("mqtt").getConnections().size());
        return sums;
    }

    private static void add(Map<String, Number> sums, String name, long number) {
        sums.merge(name, number, (one, other) -> one.longValue() + other.longValue());
    }
}
