package load;

import tandem.bench.Message.BenchmarkMessage;

/** What a system under test contributes. */
public interface Framework {
    /** Answers calls with Answer.to on host and port until the process ends; returns once it listens. */
    void serve(String host, int port) throws Exception;

    /** Opens one connection. */
    Caller dial(String host, int port) throws Exception;

    /** Says that a connection carries one call at a time; such a framework has no place in the shared mode. */
    default boolean exclusive() {
        return false;
    }

    /** One connection, for many threads at once unless the framework is exclusive. */
    interface Caller {
        BenchmarkMessage call(BenchmarkMessage request) throws Exception;
    }

    /** The seeds' service for a framework that carries the encoded message. */
    interface Bytes {
        byte[] say(byte[] message) throws Exception;
    }

    /** A caller whose connection carries the encoded message. */
    static Caller decoding(Bytes connection) {
        return request -> BenchmarkMessage.parseFrom(connection.say(request.toByteArray()));
    }
}
