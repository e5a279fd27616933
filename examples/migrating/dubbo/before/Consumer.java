package demo;

import java.util.List;
import java.util.TreeMap;
import org.apache.dubbo.config.ApplicationConfig;
import org.apache.dubbo.config.ReferenceConfig;
import org.apache.dubbo.config.bootstrap.DubboBootstrap;

/** Calls the greeter at the URL that it is given, and says what came of it. */
public final class Consumer {
    private static final int PATIENCE_MILLIS = 60_000;

    private Consumer() {}

    public static void main(String[] args) {
        ApplicationConfig application = new ApplicationConfig("guest");
        application.setQosEnable(false);
        DubboBootstrap.getInstance().application(application);
        ReferenceConfig<Greeter> reference = new ReferenceConfig<>();
        reference.setInterface(Greeter.class);
        reference.setUrl(args[0]);
        reference.setTimeout(PATIENCE_MILLIS);
        Greeter greeter = reference.get();
        System.out.println(greeter.hello("tandem"));
        System.out.println(new TreeMap<>(greeter.helloAll(List.of("Ann", "Zoë"))));
        try {
            System.out.println(greeter.hello(""));
        } catch (RuntimeException e) {
            System.out.println("failed: " + e.getMessage());
        }
        System.exit(0);
    }
}
