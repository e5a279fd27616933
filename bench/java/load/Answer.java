package load;

import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.InvalidProtocolBufferException;
import tandem.bench.Message.BenchmarkMessage;

/** The message's values, the answer and the check: bench/message in Java. */
public final class Answer {
    private static final int SIZE = 581;
    private static final String TEXT = "OK";
    private static final int NUMBER = 100;

    private static volatile long work;

    private Answer() {}

    /** Makes every answer from now on keep its processor busy for so many nanoseconds. */
    static void setWork(long nanos) {
        work = nanos;
    }

    /** Returns the seeds' message with every singular field set. */
    static BenchmarkMessage request() {
        BenchmarkMessage.Builder m = BenchmarkMessage.newBuilder();
        for (FieldDescriptor field : BenchmarkMessage.getDescriptor().getFields()) {
            if (!field.isRepeated()) {
                m.setField(field, value(field));
            }
        }
        BenchmarkMessage message = m.build();
        if (message.getSerializedSize() != SIZE) {
            throw new IllegalStateException("the message takes " + message.getSerializedSize() + " bytes, not " + SIZE);
        }
        return message;
    }

    private static Object value(FieldDescriptor field) {
        switch (field.getJavaType()) {
            case STRING:
                return "the quick brown fox jumps over one lazy dog by a river";
            case INT:
                return 100000;
            case LONG:
                return 100000L;
            default:
                return true;
        }
    }

    /** The whole work of a server. */
    public static BenchmarkMessage to(BenchmarkMessage request) {
        long began = System.nanoTime();
        while (work > 0 && System.nanoTime() - began < work) {
            Thread.onSpinWait();
        }
        return request.toBuilder().setField1(TEXT).setField2(NUMBER).build();
    }

    /** The same for a framework that carries the encoded message. */
    public static byte[] to(byte[] request) throws InvalidProtocolBufferException {
        return to(BenchmarkMessage.parseFrom(request)).toByteArray();
    }

    /** Fails unless the server has decoded, changed and encoded the message. */
    static void check(BenchmarkMessage m) {
        if (!TEXT.equals(m.getField1()) || m.getField2() != NUMBER) {
            throw new IllegalStateException("answer holds field1 " + m.getField1() + " and field2 " + m.getField2());
        }
    }
}
