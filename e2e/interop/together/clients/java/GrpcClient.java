import com.google.protobuf.DescriptorProtos.FileDescriptorSet;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.DynamicMessage;
import io.grpc.CallOptions;
import io.grpc.ManagedChannel;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.netty.shaded.io.grpc.netty.GrpcSslContexts;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.protobuf.ProtoUtils;
import io.grpc.stub.ClientCalls;
import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;

/** Calls the gate with grpc-java and TLS: address, certificate, definition. What it is told it prints. */
public final class GrpcClient {
    private GrpcClient() {}

    public static void main(String[] args) throws Exception {
        FileDescriptorSet set = FileDescriptorSet.parseFrom(Files.readAllBytes(Path.of(args[2])));
        Descriptor visit = FileDescriptor.buildFrom(set.getFile(0), new FileDescriptor[0]).findMessageTypeByName("Visit");
        DynamicMessage empty = DynamicMessage.getDefaultInstance(visit);
        MethodDescriptor<DynamicMessage, DynamicMessage> open = MethodDescriptor.<DynamicMessage, DynamicMessage>newBuilder()
                .setType(MethodType.UNARY)
                .setFullMethodName("gate.v1.Gate/Open")
                .setRequestMarshaller(ProtoUtils.marshaller(empty))
                .setResponseMarshaller(ProtoUtils.marshaller(empty))
                .build();
        ManagedChannel channel = NettyChannelBuilder.forTarget(args[0])
                .sslContext(GrpcSslContexts.forClient().trustManager(new File(args[1])).build())
                .build();
        DynamicMessage request =
                DynamicMessage.newBuilder(visit).setField(visit.findFieldByName("client"), "grpc-java").build();
        CallOptions options = CallOptions.DEFAULT.withDeadlineAfter(5, TimeUnit.MINUTES);
        DynamicMessage answer = ClientCalls.blockingUnaryCall(channel, open, options, request);
        System.out.printf("{\"client\": \"%s\", \"inside\": %d}%n",
                answer.getField(visit.findFieldByName("client")), answer.getField(visit.findFieldByName("inside")));
        channel.shutdownNow().awaitTermination(10, TimeUnit.SECONDS);
        System.exit(0);
    }
}
