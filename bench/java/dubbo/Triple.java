import load.Answer;
import load.Framework;
import load.Main;
import tandem.bench.Message.BenchmarkMessage;

/**
 * Apache Dubbo 3 with Triple, which carries protobuf itself. A Dubbo has one connection to a server
 * by this protocol and keeps it to itself, so each connection here has a whole Dubbo of its own.
 */
public final class Triple implements Framework {
    /** The seeds' service. */
    public interface Hello {
        BenchmarkMessage say(BenchmarkMessage message);
    }

    public static void main(String[] args) {
        Main.run(new Triple(), args);
    }

    @Override
    public void serve(String host, int port) {
        Setup.serve("tri", host, port, Hello.class, Answer::to);
    }

    @Override
    public Caller dial(String host, int port) {
        Setup.separate();
        return Setup.dial("tri", host, port, Hello.class)::say;
    }
}
