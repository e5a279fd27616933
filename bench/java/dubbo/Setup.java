import java.util.logging.Level;
import java.util.logging.Logger;
import org.apache.dubbo.config.ApplicationConfig;
import org.apache.dubbo.config.ProtocolConfig;
import org.apache.dubbo.config.ReferenceConfig;
import org.apache.dubbo.config.RegistryConfig;
import org.apache.dubbo.config.ServiceConfig;
import org.apache.dubbo.rpc.model.ApplicationModel;
import org.apache.dubbo.rpc.model.FrameworkModel;

/** How Dubbo is set up, with either protocol: without a registry, all by its configuration API. */
final class Setup {
    /** Calls that wait for one of the 200 threads; without a queue those of more callers would be refused. */
    private static final int QUEUED = 100_000;

    private static final int TIMEOUT_MILLIS = 5000;

    static {
        Logger.getLogger("").setLevel(Level.SEVERE);
    }

    private static ApplicationModel model = application(ApplicationModel.defaultModel());

    private Setup() {}

    /** Begins another Dubbo within the process; what is dialed from now on belongs to it. */
    static void separate() {
        model = application(new FrameworkModel().newApplication());
    }

    static <T> void serve(String protocol, String host, int port, Class<T> service, T implementation) {
        ProtocolConfig p = new ProtocolConfig(protocol, port);
        p.setHost(named(host));
        p.setQueues(QUEUED);
        ServiceConfig<T> s = new ServiceConfig<>(model.newModule());
        s.setInterface(service);
        s.setRef(implementation);
        s.setProtocol(p);
        s.setRegistry(new RegistryConfig(RegistryConfig.NO_AVAILABLE));
        s.export();
    }

    static <T> T dial(String protocol, String host, int port, Class<T> service) {
        ReferenceConfig<T> r = new ReferenceConfig<>(model.newModule());
        r.setInterface(service);
        r.setUrl(protocol + "://" + named(host) + ":" + port);
        r.setConnections(1); // of its own
        r.setTimeout(TIMEOUT_MILLIS);
        r.setRetries(0);
        r.setCheck(true);
        return r.get();
    }

    private static ApplicationModel application(ApplicationModel model) {
        ApplicationConfig a = new ApplicationConfig("bench");
        a.setQosEnable(false);
        a.setRegisterMode("interface"); // else a second service would listen on all interfaces
        model.getApplicationConfigManager().setApplication(a);
        return model;
    }

    /** Dubbo replaces 127.0.0.1 by the address of a network card, but leaves a name for it alone. */
    private static String named(String host) {
        return host.startsWith("127.") ? "loopback.bench" : host;
    }
}
