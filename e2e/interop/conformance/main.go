// Command conformance is the server that Connect's conformance suite tests
// (https://github.com/connectrpc/conformance): it reads the suite's request for a server from
// its input, and writes the server's address. One port serves all protocols, also if the suite
// requests one.
//
// There is no generated code for the suite's messages: their definitions are read from the
// folder of the flag -proto, and their contents are converted to and from JSON.
package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/tandem-rpc/tandem/protocol/all"
	"github.com/tandem-rpc/tandem/server"
)

const (
	folder  = "connectrpc/conformance/v1/"
	pkg     = "connectrpc.conformance.v1."
	service = pkg + "ConformanceService"
)

func main() {
	protos := flag.String("proto", "", "folder of the suite's .proto files")
	flag.Parse()
	if err := run(*protos); err != nil {
		log.Fatal(err)
	}
}

func run(protos string) error {
	types, err := compile(protos)
	if err != nil {
		return err
	}
	var wanted wanted
	if err := readMessage(os.Stdin, types, "ServerCompatRequest", &wanted); err != nil {
		return err
	}
	network, err := wanted.transport()
	if err != nil {
		return err
	}
	srv := server.New(server.WithProtocols(all.New()...), wanted.limit())
	if err := register(srv, types); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	ln, err := network.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := writeMessage(os.Stdout, types, "ServerCompatResponse", wanted.response(ln.Addr().(*net.TCPAddr).Port)); err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = srv.Close() }) // the process ends in any case
	if err := srv.ServeListener(ln); !errors.Is(err, server.ErrServerClosed) {
		return err
	}
	return nil
}

// compile reads the definitions, and registers the messages, so that they can be decoded
// inside an Any.
func compile(protos string) (linkedTypes, error) {
	c := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{protos}})}
	files, err := c.Compile(context.Background(), folder+"service.proto", folder+"server_compat.proto", folder+"config.proto")
	if err != nil {
		return linkedTypes{}, err
	}
	types := linkedTypes{}
	for _, f := range files {
		for i := range f.Messages().Len() {
			m := dynamicpb.NewMessageType(f.Messages().Get(i))
			types[m.Descriptor().Name()] = m
			if err := registerNested(m.Descriptor()); err != nil {
				return nil, err
			}
		}
	}
	return types, nil
}

func registerNested(m protoreflect.MessageDescriptor) error {
	for i := range m.Messages().Len() {
		if err := registerNested(m.Messages().Get(i)); err != nil {
			return err
		}
	}
	return protoregistry.GlobalTypes.RegisterMessage(dynamicpb.NewMessageType(m))
}

// linkedTypes are the suite's messages, by their names.
type linkedTypes map[protoreflect.Name]protoreflect.MessageType

// decode decodes a message into v, through JSON.
func (linkedTypes) decode(m proto.Message, v any) error {
	b, err := protojson.MarshalOptions{UseEnumNumbers: true}.Marshal(m)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

// encode returns a message of that name with the contents of v.
func (t linkedTypes) encode(name protoreflect.Name, v any) (proto.Message, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	m := t[name].New().Interface()
	return m, protojson.Unmarshal(b, m)
}

// readMessage reads a message that follows its length.
func readMessage(r io.Reader, t linkedTypes, name protoreflect.Name, v any) error {
	var size uint32
	if err := binary.Read(r, binary.BigEndian, &size); err != nil {
		return err
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(r, b); err != nil {
		return err
	}
	m := t[name].New().Interface()
	if err := proto.Unmarshal(b, m); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return t.decode(m, v)
}

func writeMessage(w io.Writer, t linkedTypes, name protoreflect.Name, v any) error {
	m, err := t.encode(name, v)
	if err != nil {
		return err
	}
	b, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)) //nolint:gosec // a few hundred bytes
	return err
}
