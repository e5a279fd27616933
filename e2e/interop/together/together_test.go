//go:build integration

package together

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/tandem-rpc/tandem/codec/protobuf"
	"github.com/tandem-rpc/tandem/e2e/interop/certificate"
	"github.com/tandem-rpc/tandem/protocol/jsonrpc"
	"github.com/tandem-rpc/tandem/protocol/netrpc"
	"github.com/tandem-rpc/tandem/protocol/rpcx"
	"github.com/tandem-rpc/tandem/protocol/thrift"
	"github.com/tandem-rpc/tandem/protocol/triple"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

// patience is how long all clients may take to call, also on a busy machine.
const patience = 4 * time.Minute

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clientsEnv is the environment variable with the folder of install.sh.
const clientsEnv = "TOGETHER_CLIENTS"

// clients are programs that call the gate. Each has a name, which it sends, and uses a
// protocol, with TLS or without.
var clients = []struct {
	name, protocol string
	secure         bool
	command        func(p *place, name string) *exec.Cmd
}{
	{"tandem", "tandem", false, inGo},
	{"tandem-tls", "tandem", true, inGo},
	{"net/rpc", "netrpc", false, inGo},
	{"net/rpc-http", "netrpc", false, inGo},
	{"net/rpc-tls", "netrpc", true, inGo},
	{"jsonrpc", "jsonrpc", false, inGo},
	{"rpcx", "rpcx", false, inRPCX},
	{"grpc-go", "grpc", true, inGo},
	{"connect-go", "connect", false, inGo},
	{"python-post", "jsonrpc", false, inPython},
	{"aiorpcx", "jsonrpc", true, inPython},
	{"grpcio", "grpc", true, inPython},
	{"thriftpy2", "thrift", false, inPython},
	{"thriftpy2-tls", "thrift", true, inPython},
	{"node-websocket", "jsonrpc", false, inJavaScript},
	{"node-websocket-tls", "jsonrpc", true, inJavaScript},
	{"grpc-js", "grpc", false, inJavaScript},
	{"connect-node", "connect", true, inJavaScript},
	{"grpc-web-node", "grpc-web", true, inJavaScript},
	{"dubbo", "triple", false, inDubbo},
	{"grpc-java", "grpc", true, inJava},
	{"curl", "connect", false, inCurl},
	{"curl-tls", "connect", true, inCurl},
}

// TestAtTheSameTime: clients of all protocols, in four languages, each in its own process, are
// in one method of one server on one port at the same time. No call is answered before all have
// arrived.
func TestAtTheSameTime(t *testing.T) {
	gate := NewGate(len(clients))
	p := newPlace(t)
	p.serve(t, gate)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	began := time.Now()
	var all sync.WaitGroup
	for _, c := range clients {
		cmd := c.command(p, c.name)
		all.Go(func() {
			v, err := visit(ctx, cmd)
			switch {
			case errors.Is(ctx.Err(), context.Canceled): // another client has failed
			case err != nil || v.GetClient() != c.name || int(v.GetInside()) != len(clients):
				t.Errorf("%s: %v, %v", c.name, v, err)
				cancel() // the other calls can't be answered any more
			}
		})
	}
	all.Wait()
	inside := gate.Inside()
	for _, c := range clients {
		if want := (Way{c.protocol, c.secure}); inside[c.name] != want {
			t.Errorf("%s came by %v, want %v", c.name, inside[c.name], want)
		}
	}
	t.Logf("%d of %d were inside together, after %.1f s", len(inside), len(clients), time.Since(began).Seconds())
}

// visit runs a program, and returns the response that it got.
func visit(ctx context.Context, cmd *exec.Cmd) (*Visit, error) {
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() }) // it has ended already
	err := cmd.Wait()
	if stop(); err != nil {
		return nil, errors.Join(err, errors.New(strings.TrimSpace(out.String()+"\n"+complaints.String())))
	}
	v := new(Visit)
	return v, json.Unmarshal(out.Bytes(), v)
}

// place has the folders of the programs, and their arguments.
type place struct {
	installed, folder    string
	address, certificate string
	port                 string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{installed: os.Getenv(clientsEnv), folder: t.TempDir()}
	if p.installed == "" {
		t.Fatalf("$%s is not set: run make interop-together", clientsEnv)
	}
	p.certificate = p.at("cert.pem")
	must(t, certificate.Write(p.certificate, p.at("key.pem")))
	must(t, os.CopyFS(p.folder, os.DirFS("testdata")))
	set := &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{protodesc.ToFileDescriptorProto(File_gate_proto)}}
	b, err := proto.Marshal(set)
	must(t, err)
	must(t, os.WriteFile(p.at("gate.proto.binpb"), b, 0o600))
	p.build(t, ".", "./clients/go")
	p.build(t, "clients/rpcx", ".")
	return p
}

func (p *place) at(name string) string { return filepath.Join(p.folder, name) }

// build builds a client in Go.
func (p *place) build(t *testing.T, dir, pkg string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", p.folder+string(filepath.Separator), pkg)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// serve serves the gate on one port, with every protocol, until the test ends.
func (p *place) serve(t *testing.T, gate *Gate) {
	t.Helper()
	const name = "gate.v1.Gate"
	pages := web.New(triple.Interface("gate.Gate"), web.WithHandler("/jsonrpc", jsonrpc.Handler(web.Conn, web.Metadata)))
	srv := server.New(
		server.WithProtocols(jsonrpc.New(), netrpc.New(), rpcx.New(), thrift.New(thrift.WithService(name)), pages),
		server.WithCodecs(protobuf.Codec()), server.WithLogger(slog.New(slog.DiscardHandler)))
	must(t, srv.RegisterName(name, serviceOf{gate}))
	must(t, srv.Alias("gate.Gate", name))
	must(t, srv.RegisterFunc("Plain.Open", gate.OpenPlain))
	pair, err := tls.LoadX509KeyPair(p.certificate, p.at("key.pem"))
	must(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p.address = ln.Addr().String()
	_, p.port, _ = net.SplitHostPort(p.address)
	config := &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12}
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(Port{ln, config}) }()
	t.Cleanup(func() {
		_ = srv.Close()
		if err := <-served; !errors.Is(err, server.ErrServerClosed) {
			t.Error(err)
		}
	})
}

// serviceOf has the method of a gate that is served as a service.
type serviceOf struct{ gate *Gate }

func (s serviceOf) Open(ctx context.Context, v *Visit) (*Visit, error) { return s.gate.Open(ctx, v) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func inGo(p *place, name string) *exec.Cmd {
	return exec.Command(p.at("go"), name, p.address, p.certificate)
}

func inRPCX(p *place, _ string) *exec.Cmd { return exec.Command(p.at("rpcx"), p.address) }

func inPython(p *place, name string) *exec.Cmd {
	cmd := exec.Command("python3", filepath.Join(p.installed, "clients.py"), name, p.address, p.certificate, p.folder)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(p.installed, "python"))
	return cmd
}

func inJavaScript(p *place, name string) *exec.Cmd {
	return exec.Command("node", filepath.Join(p.installed, "js", "clients.mjs"), name, p.address, p.certificate, p.at("gate.proto"))
}

func inJava(p *place, _ string) *exec.Cmd {
	return java(p, "grpc", "GrpcClient", p.address, p.certificate, p.at("gate.proto.binpb"))
}

// inDubbo uses a name for the server, as Dubbo would replace "127.0.0.1" by the address of a
// network interface.
func inDubbo(p *place, _ string) *exec.Cmd {
	return java(p, "dubbo", "DubboClient", "gate.test:"+p.port)
}

func java(p *place, jars, class string, args ...string) *exec.Cmd {
	hosts := p.at("hosts")
	host, _ := os.Hostname() // without one, Java complains and goes on
	_ = os.WriteFile(hosts, []byte("127.0.0.1 localhost gate.test "+host+"\n"), 0o600)
	return exec.Command("java", append([]string{
		"-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djdk.net.hosts.file=" + hosts, "-Duser.home=" + p.folder,
		"-cp", filepath.Join(p.installed, "classes") + ":" + filepath.Join(p.installed, jars, "*"), class,
	}, args...)...)
}

func inCurl(p *place, name string) *exec.Cmd {
	args := []string{"--http1.1", "http://" + p.address + "/gate.v1.Gate/Open"}
	if strings.HasSuffix(name, "-tls") {
		args = []string{"--http2", "--cacert", p.certificate, "https://" + p.address + "/gate.v1.Gate/Open"}
	}
	return exec.Command("curl", append(args, "--silent", "--show-error", "--fail-with-body", "--noproxy", "*",
		"--header", "Content-Type: application/json", "--data", `{"client":"`+name+`"}`)...)
}
