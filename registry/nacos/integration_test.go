//go:build integration

package nacos

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/registrytest"
)

// serverEnv is the environment variable with the folder that testdata/server/build.sh has
// built.
const serverEnv = "NACOS_SERVER"

// process is a real Nacos server.
type process struct {
	t         testing.TB
	port      int
	home      string
	flags     []string // flags of Java, before the main class
	settings  []string // settings of the server, after the main class
	transport *http.Transport
	scheme    string
	cmd       *exec.Cmd
	done      chan struct{} // closed when cmd has ended
}

// startNacos starts a server with an empty home.
func startNacos(t testing.TB, configure func(*process)) *process {
	t.Helper()
	p := &process{t: t, home: t.TempDir(), scheme: "http", transport: &http.Transport{DisableKeepAlives: true}}
	p.port = registrytest.FreePort(t, -1000, 1000, 1001) // Raft's and gRPC's
	if configure != nil {
		configure(p)
	}
	p.start()
	t.Cleanup(p.kill)
	return p
}

// start starts the server and waits until it answers.
func (p *process) start() {
	p.t.Helper()
	if err := p.try(); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) try() error {
	built := os.Getenv(serverEnv)
	lib := filepath.Join(built, "lib")
	if _, err := os.Stat(filepath.Join(built, "classes", "tandem", "Server.class")); err != nil {
		return fmt.Errorf("no Nacos server in $%s: %w; run make test-nacos", serverEnv, err)
	}
	args := append([]string{
		"-Xmx256m", "-XX:+UseSerialGC", "-Dnacos.standalone=true", "-Dnacos.home=" + p.home, "-Dnacos.logs.path=" + filepath.Join(p.home, "logs"),
		"-Dnacos.server.ip=127.0.0.1",
	}, p.flags...)
	args = append(args, "-cp", strings.Join([]string{filepath.Join(built, "classes"), filepath.Join(lib, "hessian-4.0.63.jar"), filepath.Join(lib, "*")}, ":"),
		"tandem.Server", "--server.address=127.0.0.1", fmt.Sprintf("--server.port=%d", p.port), "--server.servlet.contextPath=/nacos")
	p.cmd = exec.Command("java", append(args, p.settings...)...)
	p.cmd.Dir = p.home
	output, err := os.Create(filepath.Join(p.home, "output"))
	if err != nil {
		return err
	}
	defer output.Close()
	p.cmd.Stdout, p.cmd.Stderr = output, output
	begin := time.Now()
	if err := p.cmd.Start(); err != nil {
		return err
	}
	p.done = make(chan struct{})
	go func() { p.cmd.Wait(); close(p.done) }()
	err = p.ready()
	if err != nil {
		text, _ := os.ReadFile(output.Name())
		return fmt.Errorf("%w\n%s", err, text[max(0, len(text)-3000):])
	}
	p.t.Logf("Nacos was up after %v", time.Since(begin).Round(time.Millisecond))
	return nil
}

// ready waits until the server answers.
func (p *process) ready() error {
	client := &http.Client{Transport: p.transport, Timeout: 5 * time.Second}
	deadline := time.After(4 * time.Minute)
	path := "/v1/ns/instance/list?serviceName=ready"
	err := errors.New("it has not been asked")
	for {
		select {
		case <-p.done:
			return fmt.Errorf("the server has ended: %v", p.cmd.ProcessState)
		case <-deadline:
			return fmt.Errorf("not ready: %w", err)
		case <-time.After(300 * time.Millisecond):
		}
		var answer *http.Response
		if answer, err = client.Get(p.scheme + "://" + p.address() + "/nacos" + path); err != nil {
			continue
		}
		answer.Body.Close()
		if answer.StatusCode == http.StatusOK || answer.StatusCode == http.StatusForbidden && len(p.settings) > 0 {
			return nil
		}
		err = errors.New(answer.Status)
	}
}

func (p *process) address() string { return fmt.Sprintf("127.0.0.1:%d", p.port) }

// kill ends the server as kill -9 does.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.done
}

// backend returns the server as a backend.
func (p *process) backend(t testing.TB) *backend {
	t.Helper()
	b := &backend{direct: p.address(), ttl: 3 * time.Second, poll: 100 * time.Millisecond, within: 30 * time.Second}
	b.open(t)
	return b
}

// TestRealServer runs one server for all tests that can share it.
func TestRealServer(t *testing.T) {
	p := startNacos(t, nil)
	t.Run("Conformance", func(t *testing.T) { conformance(t, p.backend(t)) })
	t.Run("Lists", func(t *testing.T) { directory(t, p.backend(t)) })
	t.Run("Documents", func(t *testing.T) { checkDocuments(t, p.backend(t)) })
	t.Run("Policy", func(t *testing.T) { followPolicy(t, p.backend(t)) })
	t.Run("Console", func(t *testing.T) { console(t, p.backend(t)) })
	t.Run("Hostile", func(t *testing.T) { hostile(t, p.backend(t)) })
	t.Run("OneAddress", func(t *testing.T) { oneAddress(t, p.backend(t)) })
	t.Run("Expiry", func(t *testing.T) { expiry(t, p.backend(t)) })
	t.Run("Watches", func(t *testing.T) {
		b := p.backend(t)
		b.within = 2 * time.Minute
		manyWatches(t, b, 2000)
	})
	t.Run("Killed", func(t *testing.T) { killed(t, p, p.backend(t)) })
}

// expiry blocks the beats of a server: it leaves the list, and returns when they continue.
func expiry(t *testing.T, b *backend) {
	watched := b.target(t, "S")
	r := b.registry(t, "S")
	v := look(t, Resolver(WithPoll(b.poll)), "nacos://"+b.direct+strings.TrimPrefix(watched, "nacos://"+b.relay.address()), b.within)
	register(t, r, server(1))
	v.shows(t, "server-1:0")
	b.relay.setCut(true)
	begin := time.Now()
	v.shows(t, "")
	t.Logf("without beats it left the list after %v, ttl %v", time.Since(begin), b.ttl)
	b.relay.setCut(false)
	v.shows(t, "server-1:0")
}

// killed kills Nacos while there are 100 registrations, and starts it again with an empty
// home.
func killed(t *testing.T, p *process, b *backend) {
	const ttl = 15 * time.Second
	r := b.registry(t, "S", WithTTL(ttl))
	v := look(t, r, b.target(t, "S"), b.within)
	for i := range 100 {
		register(t, r, server(i))
	}
	all := func(s registry.Snapshot) bool { return s.Err == nil && len(s.Instances) == 100 }
	v.until(t, "100 instances", all)
	p.kill()
	v.until(t, "an error", func(s registry.Snapshot) bool { return s.Err != nil })
	if _, none := v.failures(); none > 0 {
		t.Errorf("%d empty lists while the server was down", none)
	}
	p.home = t.TempDir()
	p.start()
	begin := time.Now()
	v.until(t, "100 instances", all)
	took := time.Since(begin)
	t.Logf("100 instances were listed again %v after the server was up, ttl %v", took, ttl)
	if took > ttl+5*time.Second {
		t.Errorf("it took more than the ttl and 5 s")
	}
}

// TestRealServerSecured uses TLS and a server whose tokens are valid for 10 s.
func TestRealServerSecured(t *testing.T) {
	store := filepath.Join(t.TempDir(), "store.p12")
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(certify(t, store)) {
		t.Fatal("keytool exported no certificate")
	}
	config := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	p := startNacos(t, func(p *process) {
		p.scheme, p.transport.TLSClientConfig = "https", config
		p.flags = []string{"-Dtandem.password=secret", "-Dtandem.token.seconds=10"}
		p.settings = []string{
			"--server.ssl.key-store=" + store, "--server.ssl.key-store-password=changeit", "--server.ssl.key-store-type=PKCS12",
			"--nacos.core.auth.enabled=true", "--nacos.core.auth.system.type=nacos",
			"--nacos.core.auth.server.identity.key=k", "--nacos.core.auth.server.identity.value=v",
		}
	})
	b := p.backend(t)
	r := b.registry(t, "S", WithTLS(config), WithAuth("nacos", "secret"))
	v := look(t, r, b.target(t, "S"), b.within)
	register(t, r, server(1))
	v.shows(t, "server-1:0")
	time.Sleep(25 * time.Second) // two and a half lives of a token
	if errs, none := v.failures(); errs+none > 0 {
		t.Errorf("%d errors and %d empty lists while tokens were renewed", errs, none)
	}
	for what, c := range map[string]struct {
		opts []Option
		want string
	}{
		"no password":       {[]Option{WithTLS(config)}, "403"},
		"a wrong password":  {[]Option{WithTLS(config), WithAuth("nacos", "wrong")}, `logging in as "nacos"`},
		"no TLS":            {[]Option{WithAuth("nacos", "secret")}, "400"},
		"an unknown issuer": {[]Option{WithTLS(nil), WithAuth("nacos", "secret")}, "certificate"},
	} {
		if _, err := b.registry(t, "S", c.opts...).Register(t.Context(), server(2)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", what, err)
		} else {
			t.Logf("%s: %v", what, err)
		}
	}
}

// certify creates a key store with a certificate for 127.0.0.1, and returns the certificate.
// It uses Java's keytool for Java's format.
func certify(t testing.TB, store string) []byte {
	t.Helper()
	pass := []string{"-keystore", store, "-storetype", "PKCS12", "-storepass", "changeit", "-alias", "nacos"}
	generate := append([]string{"-genkeypair", "-keyalg", "EC", "-groupname", "secp256r1", "-dname", "CN=nacos", "-ext", "SAN=ip:127.0.0.1", "-validity", "2"}, pass...)
	if out, err := exec.Command("keytool", generate...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	pem, err := exec.Command("keytool", append([]string{"-exportcert", "-rfc"}, pass...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return pem
}
