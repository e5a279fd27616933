package load;

import java.io.EOFException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.util.Locale;

/** The main function of a peer: the server or the client of a framework, as the command line says. */
public final class Main {
    private Main() {}

    public static void run(Framework framework, String[] args) {
        Locale.setDefault(Locale.ROOT); // for numbers that the harness can read
        Control control = new Control();
        int status = 0;
        try {
            Plan plan = Plan.parse(args);
            if (args[0].equals("server")) {
                serve(framework, plan, control);
            } else if (args[0].equals("client")) {
                call(framework, plan, control);
            } else {
                throw new IllegalArgumentException("subcommand " + args[0] + "; in Java there are server and client");
            }
        } catch (EOFException e) {
            status = 0; // the harness has gone, and so does the peer
        } catch (Throwable e) {
            e.printStackTrace();
            control.report("failed", "error", Control.quote(e.toString()));
            status = 1;
        }
        Runtime.getRuntime().halt(status); // frameworks leave threads behind
    }

    private static void serve(Framework framework, Plan plan, Control control) throws Exception {
        String addr = plan.text("listen", "127.0.0.1:0");
        String host = host(addr);
        int port = port(addr) == 0 ? freePort(host) : port(addr);
        Answer.setWork(plan.nanos("work"));
        framework.serve(host, port);
        control.report("ready", "addr", Control.quote(host + ":" + port));
        while (true) {
            control.expect("mark");
            control.report("usage", "usage", Usage.now().json());
        }
    }

    private static void call(Framework framework, Plan plan, Control control) throws Exception {
        if (framework.exclusive() && plan.number("conns") > 0) {
            String why = "a connection carries one call at a time; nothing can be shared";
            control.report("unsupported", "error", Control.quote(why));
            return;
        }
        Client client = new Client(plan);
        client.start(framework);
        client.follow(control);
    }

    /** A port that was free a moment ago: not every framework tells which one the kernel picked. */
    private static int freePort(String host) throws Exception {
        try (ServerSocket s = new ServerSocket(0, 1, InetAddress.getByName(host))) {
            return s.getLocalPort();
        }
    }

    static String host(String addr) {
        String host = addr.substring(0, addr.lastIndexOf(':'));
        return host.isEmpty() ? "0.0.0.0" : host;
    }

    static int port(String addr) {
        return Integer.parseInt(addr.substring(addr.lastIndexOf(':') + 1));
    }
}
