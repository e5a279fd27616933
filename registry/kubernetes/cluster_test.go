//go:build integration && linux

package kubernetes

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/registry/registrytest"
)

// Addresses of the network that "make test-kubernetes" runs the tests in. EndpointSlices must not
// have loopback addresses, so that the pods have others.
const (
	nodeAddress = "10.77.0.1"
	podAddress  = "10.77.0.%d"
)

const adminToken = "admin-of-the-test"

// cluster is an etcd and a kube-apiserver, without anything else of Kubernetes.
type cluster struct {
	t       testing.TB
	dir     string
	etcd    string // host:port
	address string // host:port of the API server
	ca      string // PEM
	admin   *http.Client
	many    *http.Client // that keeps its connections
	store   *exec.Cmd
	api     *exec.Cmd
}

// startCluster starts a cluster with the namespace shop. It is stopped with the test.
func startCluster(t testing.TB) *cluster {
	t.Helper()
	if !hasAddress(nodeAddress) {
		t.Fatalf("no interface has the address %s: run make test-kubernetes, or ip addr add 10.77.0.1/24 dev lo in a network of its own", nodeAddress)
	}
	c := &cluster{t: t, dir: t.TempDir(), etcd: registrytest.FreeAddress(t), address: registrytest.FreeAddress(t)}
	c.certificates()
	write(t, c.dir, "tokens.csv", adminToken+`,admin,1,"system:masters"`+"\n")
	peer := "http://" + registrytest.FreeAddress(t)
	c.store = c.start("etcd", "etcd", "--name", "test", "--data-dir", filepath.Join(c.dir, "data"), "--unsafe-no-fsync", "--log-level", "error",
		"--listen-client-urls", "http://"+c.etcd, "--advertise-client-urls", "http://"+c.etcd,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "test="+peer)
	t.Cleanup(func() { stop(c.store) })
	c.startAPI()
	t.Cleanup(func() { stop(c.api) })
	c.must(http.MethodPost, "/api/v1/namespaces", object("Namespace", "v1", "shop", nil))
	return c
}

func hasAddress(want string) bool {
	addresses, err := net.InterfaceAddrs()
	for _, a := range addresses {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.String() == want {
			return true
		}
	}
	return err != nil
}

// binaryOf returns the kube-apiserver that install.sh has built.
func binaryOf() string {
	if b := os.Getenv("KUBE_APISERVER"); b != "" {
		return b
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "kube-apiserver"
	}
	return filepath.Join(cache, "tandem", "kube-apiserver-1.36.3", "kube-apiserver")
}

// certificates makes the certificate of the API server, its own authority, and the key of tokens.
func (c *cluster) certificates() {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kubernetes"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		c.t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		c.t.Fatal(err)
	}
	c.ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	write(c.t, c.dir, "server.crt", c.ca)
	write(c.t, c.dir, "server.key", string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})))
	config, err := (&dialing{ca: c.ca}).tls()
	if err != nil {
		c.t.Fatal(err)
	}
	c.admin = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	c.many = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: config, MaxIdleConnsPerHost: 100}}
	c.t.Cleanup(c.many.CloseIdleConnections)
}

// start starts a program that ends with the test.
func (c *cluster) start(name, program string, args ...string) *exec.Cmd {
	c.t.Helper()
	log, err := os.OpenFile(filepath.Join(c.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		c.t.Fatalf("registry/kubernetes/install.sh installs what is needed: %v", err)
	}
	return cmd
}

// stop kills a program.
func stop(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// startAPI starts the API server and waits until it is ready.
func (c *cluster) startAPI() {
	c.t.Helper()
	in := func(file string) string { return filepath.Join(c.dir, file) }
	_, port, _ := net.SplitHostPort(c.address)
	c.api = c.start("apiserver", binaryOf(), "--etcd-servers=http://"+c.etcd, "--etcd-compaction-interval=0",
		"--bind-address=127.0.0.1", "--secure-port="+port, "--advertise-address="+nodeAddress, "--cert-dir="+in("certs"),
		"--tls-cert-file="+in("server.crt"), "--tls-private-key-file="+in("server.key"),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+in("server.key"),
		"--service-account-signing-key-file="+in("server.key"), "--service-cluster-ip-range=10.96.0.0/16",
		"--token-auth-file="+in("tokens.csv"), "--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount")
	deadline := time.Now().Add(2 * time.Minute)
	for {
		status, body, err := c.do(http.MethodGet, "/readyz", nil)
		if status == http.StatusOK {
			return
		}
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(in("apiserver.log"))
			c.t.Fatalf("the API server is not ready: %d %s %v\n%s", status, body, err, log[max(0, len(log)-3000):])
		}
		time.Sleep(100 * time.Millisecond) // until the other program is ready
	}
}

// statusFor returns the status of the response to a list with a token, 0 if there is none.
func (c *cluster) statusFor(token string) int {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "https://"+c.address+slicesOfShop, nil)
	if err != nil {
		return 0
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := c.many.Do(req)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return resp.StatusCode
}

// do sends a request of the admin.
func (c *cluster) do(method, path string, body any) (int, []byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return 0, nil, err
	}
	req, err := http.NewRequestWithContext(context.Background(), method, "https://"+c.address+path, bytes.NewReader(text))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+adminToken)
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.admin.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// must is do, and fails the test if the request does not succeed.
func (c *cluster) must(method, path string, body any) []byte {
	c.t.Helper()
	status, answer, err := c.do(method, path, body)
	if err != nil || status >= 300 {
		c.t.Fatalf("%s %s: %d %v: %s", method, path, status, err, answer)
	}
	return answer
}

// object returns an object of Kubernetes.
func object(kind, version, name string, more map[string]any) map[string]any {
	o := map[string]any{"kind": kind, "apiVersion": version, "metadata": map[string]any{"name": name}}
	maps.Copy(o, more)
	return o
}

const slicesOfShop = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices"

// put creates or replaces a slice, which is made as for a fakeAPI.
func (c *cluster) put(s map[string]any) {
	c.t.Helper()
	s["kind"], s["apiVersion"] = "EndpointSlice", "discovery.k8s.io/v1"
	name := s["metadata"].(map[string]any)["name"].(string)
	if status, _, err := c.do(http.MethodGet, slicesOfShop+"/"+name, nil); err == nil && status == http.StatusOK {
		c.must(http.MethodPut, slicesOfShop+"/"+name, s)
		return
	}
	c.must(http.MethodPost, slicesOfShop, s)
}

func (c *cluster) remove(name string) {
	c.t.Helper()
	c.must(http.MethodDelete, slicesOfShop+"/"+name, nil)
}

// compact makes etcd forget all changes so far.
func (c *cluster) compact() {
	c.t.Helper()
	var state struct {
		Header struct {
			Revision string `json:"revision"`
		} `json:"header"`
	}
	ask := func(path, body string, into any) {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://"+c.etcd+path, strings.NewReader(body))
		if err != nil {
			c.t.Fatal(err)
		}
		resp, err := c.admin.Do(req)
		if err != nil {
			c.t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if err := json.NewDecoder(resp.Body).Decode(into); err != nil || resp.StatusCode != http.StatusOK {
			c.t.Fatal(path, resp.Status, err)
		}
	}
	ask("/v3/kv/range", `{"key":"AA=="}`, &state)
	ask("/v3/kv/compaction", fmt.Sprintf(`{"revision":%q,"physical":true}`, state.Header.Revision), new(map[string]any))
}

// tokenOf returns a token of a service account in the namespace shop.
func (c *cluster) tokenOf(account string) string {
	c.t.Helper()
	request := object("TokenRequest", "authentication.k8s.io/v1", account, map[string]any{"spec": map[string]any{"expirationSeconds": 3600}})
	var answer struct {
		Status struct {
			Token string `json:"token"`
		} `json:"status"`
	}
	if err := json.Unmarshal(c.must(http.MethodPost, "/api/v1/namespaces/shop/serviceaccounts/"+account+"/token", request), &answer); err != nil {
		c.t.Fatal(err)
	}
	return answer.Status.Token
}

// clientTLS returns the configuration of a client that trusts the API server.
func (c *cluster) clientTLS() *tls.Config {
	return c.admin.Transport.(*http.Transport).TLSClientConfig.Clone()
}
