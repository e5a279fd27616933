import com.google.protobuf.ByteString;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.IntPredicate;
import java.util.logging.Level;
import java.util.logging.Logger;
import java.util.zip.CRC32;
import org.apache.dubbo.common.constants.CommonConstants;
import org.apache.dubbo.common.stream.StreamObserver;
import org.apache.dubbo.config.ApplicationConfig;
import org.apache.dubbo.config.ReferenceConfig;
import org.apache.dubbo.config.RegistryConfig;
import org.apache.dubbo.config.bootstrap.DubboBootstrap;
import org.apache.dubbo.rpc.RpcContext;
import org.apache.dubbo.rpc.RpcException;
import org.apache.dubbo.rpc.StatusRpcException;
import org.apache.dubbo.rpc.protocol.tri.observer.ClientCallToObserverAdapter;
import shop.v1.AddRequest;
import shop.v1.Baskets;
import shop.v1.Cart;
import shop.v1.Carts;

/**
 * Calls shop.v1.Carts, with the stub that Dubbo's generator has made, at the URL or through the
 * registry that is given. What came of a call is a line: its name, a colon, and what it got.
 */
public final class TripleConsumer {
    private static final int PATIENCE_MILLIS = 60_000;
    private static final int SHORT_MILLIS = 300;

    private final String where;
    private Carts carts;

    TripleConsumer(String where) {
        this.where = where;
    }

    public static void main(String[] args) throws Exception {
        begin();
        new TripleConsumer(args[0]).all();
        System.exit(0);
    }

    static void begin() {
        Logger.getLogger("").setLevel(Level.SEVERE);
        ApplicationConfig application = new ApplicationConfig("shopper");
        application.setQosEnable(false);
        DubboBootstrap.getInstance().application(application);
    }

    <T> T refer(Class<T> type, String name, String proxy) {
        ReferenceConfig<T> r = new ReferenceConfig<>();
        r.setInterface(type);
        r.setProxy(proxy);
        r.setTimeout(PATIENCE_MILLIS);
        r.setRetries(0);
        if (where.startsWith("tri://")) {
            r.setUrl(where + "/" + name);
        } else {
            RegistryConfig registry = new RegistryConfig(where);
            registry.setUseAsConfigCenter(false);
            registry.setUseAsMetadataCenter(false);
            r.setRegistry(registry);
        }
        return r.get();
    }

    private void all() {
        carts = refer(Carts.class, Carts.SERVICE_NAME, CommonConstants.NATIVE_STUB);
        say("unary", () -> text(carts.add(request("apple", 3))));
        say("large", () -> sum(carts.add(noted(1 << 20)).getNote().toByteArray()));
        say("too large", () -> text(carts.add(noted(5 << 20))));
        say("empty", () -> text(carts.add(AddRequest.getDefaultInstance())));
        say("error", () -> text(carts.add(request("missing", 1))));
        say("plain error", () -> text(carts.add(request("broken", 1))));
        say("panic", () -> text(carts.add(request("panic", 1))));
        say("unimplemented", () -> text(carts.clear(request("apple", 1))));
        say("asynchronous", () -> text(carts.addAsync(request("pear", 2)).get(PATIENCE_MILLIS, TimeUnit.MILLISECONDS)));
        say("server stream", () -> watch(request("apple", 3)));
        say("server stream that fails", () -> watch(request("missing", 2)));
        say("client stream", this::fill);
        say("bidi stream", this::follow);
        say("bidi stream that is cancelled", this::cancel);
        say("attachments", this::attachments);
        say("deadline", () -> text(carts.add(request("deadline", 1))));
        say("timeout", () -> timeout(() -> text(carts.add(request("slow", 1)))));
        say("many at a time", () -> many(i -> text(carts.add(request("nut", i))).equals("nut=" + i)));
        say("interface without a stub", () -> text(refer(Baskets.class, Baskets.class.getName(), null).add(request("plum", 1))));
    }

    private static AddRequest request(String item, int count) {
        return AddRequest.newBuilder().setItem(item).setCount(count).build();
    }

    private static AddRequest noted(int bytes) {
        byte[] note = new byte[bytes];
        for (int i = 0; i < bytes; i++) {
            note[i] = (byte) (i * 31 + (i >> 8));
        }
        return AddRequest.newBuilder().setNote(ByteString.copyFrom(note)).build();
    }

    private String watch(AddRequest request) throws Exception {
        Observer answers = new Observer();
        carts.watch(request, answers);
        return answers.all();
    }

    private String fill() throws Exception {
        Observer answers = new Observer();
        StreamObserver<AddRequest> requests = carts.fill(answers);
        for (int i = 1; i <= 4; i++) {
            requests.onNext(request(i % 2 == 0 ? "apple" : "pear", i));
        }
        requests.onCompleted();
        return answers.all();
    }

    /** Sends each request when the answer to the one before is there. */
    private String follow() throws Exception {
        Observer answers = new Observer();
        StreamObserver<AddRequest> requests = carts.follow(answers);
        List<String> got = new ArrayList<>();
        for (int i = 1; i <= 3; i++) {
            requests.onNext(request("apple", i));
            got.add(answers.next());
        }
        requests.onCompleted();
        got.add(answers.all());
        return String.join(" ", got);
    }

    private String cancel() throws Exception {
        Observer answers = new Observer();
        StreamObserver<AddRequest> requests = carts.follow(answers);
        requests.onNext(request("apple", 1));
        String first = answers.next();
        ((ClientCallToObserverAdapter<AddRequest>) requests).cancel(new Exception("enough"));
        return first;
    }

    private String attachments() {
        RpcContext.getClientAttachment().setAttachment("user", "ann");
        RpcContext.getClientAttachment().setAttachment("CamelCase", "camel");
        RpcContext.getClientAttachment().setObjectAttachment("key", new byte[] {0, (byte) 0xff, 'k'});
        String got = text(carts.add(request("metadata", 1)));
        Object key = RpcContext.getServerContext().getObjectAttachment("key-answer");
        return got + " user=" + RpcContext.getServerContext().getAttachment("user-answer") + " key="
                + (key instanceof byte[] bytes ? Arrays.toString(bytes) : key);
    }

    String timeout(Callable<String> call) throws Exception {
        RpcContext.getClientAttachment().setObjectAttachment("timeout", SHORT_MILLIS);
        try {
            return call.call();
        } catch (RpcException e) {
            return e.isTimeout() || failure(e).contains("DEADLINE_EXCEEDED") ? "timeout" : failure(e); // whose clock is first
        } finally {
            RpcContext.getClientAttachment().removeAttachment("timeout");
        }
    }

    static String many(IntPredicate call) throws Exception {
        ExecutorService callers = Executors.newFixedThreadPool(16);
        List<Callable<Boolean>> calls = new ArrayList<>();
        for (int i = 0; i < 400; i++) {
            int number = i;
            calls.add(() -> call.test(number));
        }
        int right = 0;
        for (Future<Boolean> f : callers.invokeAll(calls)) {
            right += f.get() ? 1 : 0;
        }
        callers.shutdown();
        return right + " right";
    }

    private static String text(Cart cart) {
        List<String> items = new ArrayList<>();
        new TreeMap<>(cart.getItemsMap()).forEach((item, count) -> items.add(item + "=" + count));
        return items.isEmpty() ? "nothing" : String.join(",", items);
    }

    private static String sum(byte[] b) {
        CRC32 crc = new CRC32();
        crc.update(b);
        return b.length + " bytes, " + Long.toHexString(crc.getValue());
    }

    /** What the caller gets: Dubbo's code of the exception, and the status of gRPC within. */
    private static String failure(Throwable t) {
        String code = t instanceof RpcException e ? "RpcException " + e.getCode() : t.getClass().getSimpleName();
        for (Throwable cause = t; cause != null; cause = cause.getCause()) {
            if (cause instanceof StatusRpcException e) {
                return code + ": " + e.getStatus().code + ": " + e.getStatus().description;
            }
        }
        return code + ": " + t.getMessage();
    }

    static void say(String name, Callable<String> call) {
        String got;
        try {
            got = call.call();
        } catch (Throwable t) {
            got = failure(t);
        }
        System.out.println(name + ": " + got.replace("\n", " "));
    }

    /** Keeps what a stream receives. */
    private static final class Observer implements StreamObserver<Cart> {
        private static final String END = "end";

        private final LinkedBlockingQueue<String> got = new LinkedBlockingQueue<>();

        @Override
        public void onNext(Cart cart) {
            got.add(text(cart));
        }

        @Override
        public void onError(Throwable t) {
            got.add(failure(t));
            got.add(END);
        }

        @Override
        public void onCompleted() {
            got.add(END);
        }

        String next() throws InterruptedException {
            return String.valueOf(got.poll(PATIENCE_MILLIS, TimeUnit.MILLISECONDS));
        }

        String all() throws InterruptedException {
            List<String> all = new ArrayList<>();
            do {
                all.add(next());
            } while (!all.get(all.size() - 1).equals(END));
            return String.join(" ", all);
        }
    }
}
