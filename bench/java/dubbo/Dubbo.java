import load.Answer;
import load.Framework;
import load.Main;

/**
 * Apache Dubbo 3 with its own protocol. The service carries the message as bytes, encoded in its
 * code, as the seeds' own test does.
 */
public final class Dubbo implements Framework {
    public static void main(String[] args) {
        Main.run(new Dubbo(), args);
    }

    @Override
    public void serve(String host, int port) {
        Setup.serve("dubbo", host, port, Bytes.class, Answer::to);
    }

    @Override
    public Caller dial(String host, int port) {
        return Framework.decoding(Setup.dial("dubbo", host, port, Bytes.class));
    }
}
