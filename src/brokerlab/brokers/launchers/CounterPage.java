import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;

/**
 * A page with the broker's own counters, a name and a number on each line, as Prometheus writes them.
 *
 * <p>It is at the address that the property brokerlab.page names, and is not there without it.
 */
final class CounterPage {

    static void serve(Callable<Map<String, ? extends Number>> counters) throws IOException {
        String address = System.getProperty("brokerlab.page");
        if (address == null) {
            return;
        }
        int colon = address.lastIndexOf(':');
        var at = new InetSocketAddress(address.substring(0, colon), Integer.parseInt(address.substring(colon + 1)));
        HttpServer server = HttpServer.create(at, 0);
        server.createContext("/metrics", exchange -> {
            byte[] text;
            int code = 200;
            try {
                text = written(counters.call()).getBytes(StandardCharsets.UTF_8);
            } catch (Exception problem) {
                text = problem.toString().getBytes(StandardCharsets.UTF_8);
                code = 500;
            }
            exchange.getResponseHeaders().set("Content-Type", "text/plain; charset=utf-8");
            exchange.sendResponseHeaders(code, text.length);
            exchange.getResponseBody().write(text);
            exchange.close();
        });
        server.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> server.stop(0)));
    }

    private static String written(Map<String, ? extends Number> numbers) {
        StringBuilder page = new StringBuilder();
        new TreeMap<>(numbers).forEach((name, number) ->
            page.append(name.replaceAll("\\W", "_")).append(' ').append(number).append('\n'));
        return page.toString();
    }
}
