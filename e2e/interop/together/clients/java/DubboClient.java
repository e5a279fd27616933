import gate.Gate;
import gate.Visit;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.apache.dubbo.config.ApplicationConfig;
import org.apache.dubbo.config.ReferenceConfig;
import org.apache.dubbo.config.bootstrap.DubboBootstrap;

/** Calls the gate at the address that is given with Dubbo, by Triple; what it is told it prints. */
public final class DubboClient {
    private static final int PATIENCE_MILLIS = 300_000;

    private DubboClient() {}

    public static void main(String[] args) {
        Logger.getLogger("").setLevel(Level.SEVERE);
        ApplicationConfig application = new ApplicationConfig("visitor");
        application.setQosEnable(false);
        DubboBootstrap.getInstance().application(application);
        ReferenceConfig<Gate> reference = new ReferenceConfig<>();
        reference.setInterface(Gate.class);
        reference.setTimeout(PATIENCE_MILLIS);
        reference.setRetries(0);
        reference.setUrl("tri://" + args[0] + "/gate.Gate");
        Visit visit = new Visit();
        visit.client = "dubbo";
        Visit answer = reference.get().open(visit);
        System.out.printf("{\"client\": \"%s\", \"inside\": %d}%n", answer.client, answer.inside);
        System.exit(0);
    }
}
