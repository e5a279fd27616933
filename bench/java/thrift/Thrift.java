import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import load.Answer;
import load.Framework;
import load.Main;
import org.apache.thrift.TException;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.server.TThreadedSelectorServer;
import org.apache.thrift.transport.TNonblockingServerSocket;
import org.apache.thrift.transport.TSocket;
import org.apache.thrift.transport.layered.TFramedTransport;

/**
 * Apache Thrift's Java library: the binary protocol, framed, and the threaded selector server, with
 * its defaults. The service carries the message as binary, like that of the peer in Go, whose
 * hello.thrift it is.
 */
public final class Thrift implements Framework {
    public static void main(String[] args) {
        Main.run(new Thrift(), args);
    }

    @Override
    public void serve(String host, int port) throws Exception {
        Hello.Iface service = message -> {
            byte[] bytes = new byte[message.remaining()];
            message.get(bytes);
            try {
                return ByteBuffer.wrap(Answer.to(bytes));
            } catch (Exception e) {
                throw new TException(e);
            }
        };
        TThreadedSelectorServer server = new TThreadedSelectorServer(
                new TThreadedSelectorServer.Args(new TNonblockingServerSocket(new InetSocketAddress(host, port)))
                        .processor(new Hello.Processor<>(service))
                        .protocolFactory(new TBinaryProtocol.Factory()));
        Thread thread = new Thread(server::serve, "server");
        thread.setDaemon(true);
        thread.start();
    }

    @Override
    public Caller dial(String host, int port) throws Exception {
        TFramedTransport transport = new TFramedTransport(new TSocket(host, port));
        transport.open();
        Hello.Client client = new Hello.Client(new TBinaryProtocol(transport));
        return Framework.decoding(message -> {
            ByteBuffer answer = client.say(ByteBuffer.wrap(message));
            byte[] bytes = new byte[answer.remaining()];
            answer.get(bytes);
            return bytes;
        });
    }

    @Override
    public boolean exclusive() {
        return true;
    }
}
