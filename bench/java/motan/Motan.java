import com.weibo.api.motan.config.ProtocolConfig;
import com.weibo.api.motan.config.RefererConfig;
import com.weibo.api.motan.config.RegistryConfig;
import com.weibo.api.motan.config.ServiceConfig;
import load.Answer;
import load.Framework;
import load.Main;

/**
 * Weibo's Motan with its protocol of that name over Netty 4. The service carries the message as
 * bytes, encoded in its code, as the seeds' own test does.
 */
public final class Motan implements Framework {
    private static final int TIMEOUT_MILLIS = 5000;
    private static final int CONNECTIONS = 100_000;

    /** Threads and calls that wait for one; with the defaults those of more callers would be refused. */
    private static final int THREADS = 200;

    private static final int QUEUED = 100_000;

    public static void main(String[] args) {
        Main.run(new Motan(), args);
    }

    @Override
    public void serve(String host, int port) {
        ProtocolConfig p = protocol();
        p.setMaxServerConnection(CONNECTIONS);
        p.setMinWorkerThread(THREADS);
        p.setMaxWorkerThread(THREADS);
        p.setWorkerQueueSize(QUEUED);
        ServiceConfig<Bytes> s = new ServiceConfig<>();
        s.setInterface(Bytes.class);
        s.setRef(Answer::to);
        s.setProtocol(p);
        s.setHost(host);
        s.setExport("motan:" + port);
        s.setRegistry(nowhere());
        s.export();
    }

    @Override
    public Caller dial(String host, int port) {
        ProtocolConfig p = protocol();
        p.setMinClientConnection(1);
        p.setMaxClientConnection(1);
        RefererConfig<Bytes> r = new RefererConfig<>();
        r.setInterface(Bytes.class);
        r.setProtocol(p);
        r.setRegistry(nowhere());
        r.setDirectUrl(host + ":" + port);
        r.setRequestTimeout(TIMEOUT_MILLIS);
        r.setRetries(0);
        r.setAsyncInitConnection(false); // else the first call opens a connection besides
        return Framework.decoding(r.getRef());
    }

    private static ProtocolConfig protocol() {
        ProtocolConfig p = new ProtocolConfig();
        p.setId("motan");
        p.setName("motan");
        return p;
    }

    /** A registry that nobody asks. */
    private static RegistryConfig nowhere() {
        RegistryConfig r = new RegistryConfig();
        r.setRegProtocol("local");
        return r;
    }
}
