package demo;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.dubbo.config.ApplicationConfig;
import org.apache.dubbo.config.ProtocolConfig;
import org.apache.dubbo.config.RegistryConfig;
import org.apache.dubbo.config.ServiceConfig;
import org.apache.dubbo.config.bootstrap.DubboBootstrap;

/** Serves at the host and port that it is given, until its input ends. */
public final class Provider implements Greeter {
    private Provider() {}

    @Override
    public String hello(String name) {
        if (name.isEmpty()) {
            throw new IllegalArgumentException("nobody to greet");
        }
        return "Hello, " + name;
    }

    @Override
    public Map<String, String> helloAll(List<String> names) {
        Map<String, String> all = new TreeMap<>();
        for (String name : names) {
            all.put(name, hello(name));
        }
        return all;
    }

    public static void main(String[] args) throws Exception {
        ApplicationConfig application = new ApplicationConfig("greeter");
        application.setQosEnable(false);
        ProtocolConfig protocol = new ProtocolConfig("tri", Integer.parseInt(args[1]));
        protocol.setHost(args[0]);
        ServiceConfig<Greeter> service = new ServiceConfig<>();
        service.setInterface(Greeter.class);
        service.setRef(new Provider());
        DubboBootstrap.getInstance()
                .application(application)
                .registry(new RegistryConfig(RegistryConfig.NO_AVAILABLE))
                .protocol(protocol)
                .service(service)
                .start();
        System.out.println("serving");
        while (System.in.read() >= 0) {
            // what is said does not matter
        }
        System.exit(0);
    }
}
