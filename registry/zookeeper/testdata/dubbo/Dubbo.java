import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

import org.apache.dubbo.common.URL;
import org.apache.dubbo.config.ApplicationConfig;
import org.apache.dubbo.config.ReferenceConfig;
import org.apache.dubbo.config.RegistryConfig;
import org.apache.dubbo.config.bootstrap.DubboBootstrap;
import org.apache.dubbo.registry.NotifyListener;
import org.apache.dubbo.registry.Registry;
import org.apache.dubbo.registry.RegistryFactory;
import org.apache.dubbo.rpc.Invoker;
import org.apache.dubbo.rpc.cluster.ClusterInvoker;
import org.apache.dubbo.rpc.model.ApplicationModel;
import org.apache.dubbo.rpc.service.GenericService;

/**
 * Does with Dubbo's own registry what it is told by lines of its input, until that
 * ends. What it says of providers it has from URLs as Dubbo has read them.
 *
 *   subscribe URL    says "notified", and the providers, at each of Dubbo's notifications
 *   register URL     as a provider does
 *   unregister URL   the same URL
 *   refer KEY INTERFACE GROUP VERSION   makes a consumer; an asterisk is any
 *   list KEY         says "invokers", and those to which that consumer would send calls
 */
public final class Dubbo {
    private final DubboBootstrap bootstrap = DubboBootstrap.getInstance();
    private final RegistryConfig where;
    private final Registry registry;
    private final Map<String, ReferenceConfig<GenericService>> consumers = new HashMap<>();

    private Dubbo(String address) {
        where = new RegistryConfig(address);
        where.setUseAsConfigCenter(false);
        where.setUseAsMetadataCenter(false);
        ApplicationConfig application = new ApplicationConfig("tandem-test");
        application.setQosEnable(false);
        bootstrap.application(application).registry(where).start();
        ApplicationModel model = ApplicationModel.defaultModel();
        registry = model.getExtensionLoader(RegistryFactory.class).getAdaptiveExtension()
                .getRegistry(URL.valueOf(address).setScopeModel(model));
    }

    public static void main(String[] args) throws Exception {
        Dubbo dubbo = new Dubbo(args[0]);
        say("ready", List.of());
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            dubbo.obey(line.split(" "));
        }
        System.exit(0);
    }

    private void obey(String[] words) {
        switch (words[0]) {
            case "subscribe" -> registry.subscribe(url(words[1]), (NotifyListener) Dubbo::notified);
            case "register" -> registry.register(url(words[1]));
            case "unregister" -> registry.unregister(url(words[1]));
            case "refer" -> refer(words[1], words[2], words[3], words[4]);
            case "list" -> list(words[1]);
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    private static URL url(String text) {
        return URL.valueOf(text).setScopeModel(ApplicationModel.defaultModel().getDefaultModule());
    }

    /** A consumer is notified of providers, configurators and routers, each apart. */
    private static void notified(List<URL> urls) {
        if (urls.isEmpty() || !urls.get(0).getCategory("providers").equals("providers")) {
            return;
        }
        List<URL> providers = new ArrayList<>(urls);
        providers.removeIf(u -> u.getProtocol().equals("empty"));
        say("notified", providers);
    }

    private void refer(String key, String type, String group, String version) {
        ReferenceConfig<GenericService> consumer = new ReferenceConfig<>();
        consumer.setInterface(type);
        consumer.setGeneric("true");
        consumer.setGroup(group);
        consumer.setVersion(version);
        consumer.setCheck(false);
        consumer.setLazy(true);
        consumer.setRegistry(where);
        bootstrap.reference(consumer);
        consumer.get();
        consumers.put(key, consumer);
    }

    private void list(String key) {
        List<URL> urls = new ArrayList<>();
        for (Invoker<?> invoker : ((ClusterInvoker<?>) consumers.get(key).getInvoker()).getDirectory().getAllInvokers()) {
            urls.add(invoker.getUrl());
        }
        say("invokers", urls);
    }

    private static synchronized void say(String what, List<URL> urls) {
        List<String> words = new ArrayList<>();
        for (URL u : urls) {
            words.add(u.getProtocol() + "://" + u.getAddress() + "/" + u.getServiceKey() + "?weight=" + u.getParameter("weight", 100));
        }
        Collections.sort(words);
        words.add(0, what);
        System.out.println(String.join(" ", words));
        System.out.flush();
    }
}
