package kubernetes

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/registrytest"
)

// certificateOf returns the certificate of a test server as PEM.
func certificateOf(web *httptest.Server) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw}))
}

// write writes a file.
func write(t testing.TB, dir, file, text string) string {
	t.Helper()
	path := filepath.Join(dir, file)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// inPod returns a resolver as it would be in a pod of a cluster with this API server, and the
// directory of its service account.
func inPod(t testing.TB, web *httptest.Server) (registry.Resolver, string) {
	t.Helper()
	host, port, err := net.SplitHostPort(web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", host)
	t.Setenv("KUBERNETES_SERVICE_PORT", port)
	dir := t.TempDir()
	write(t, dir, "ca.crt", certificateOf(web))
	write(t, dir, "token", "first\n")
	return Resolver(func(o *options) { o.serviceAccount = dir }), dir
}

// In a pod, the service account is used, and its token is read again.
func TestServiceAccount(t *testing.T) {
	f := newFake(t)
	f.token = "first"
	f.put(pods("price-a", 1))
	web := httptest.NewTLSServer(f)
	t.Cleanup(web.Close)
	t.Cleanup(f.endWatches)
	r, dir := inPod(t, web)
	if err := r.(registry.Checker).Check(mustParse(t, target)); err != nil {
		t.Error(err)
	}
	w := watchList(t, r, target)
	w.sees("price-1")
	f.awaitWatch()

	f.mu.Lock()
	f.token = "second"
	f.mu.Unlock()
	f.put(pods("price-a", 2))
	w.sees("price-2") // the watch goes on
	f.endWatches()
	w.fails("401: Unauthorized: it does not accept the token")
	write(t, dir, "token", "second")
	f.put(pods("price-a", 3))
	w.sees("price-3")

	write(t, dir, "token", " \n")
	f.endWatches()
	w.fails("the token is empty")
	write(t, dir, "token", "second")
	f.put(pods("price-a", 4))
	w.sees("price-4")
}

// A certificate authority that has changed takes effect without a restart, and one that did not
// issue the server's certificate is an error.
func TestCertificateAuthorityIsReadAgain(t *testing.T) {
	f := newFake(t)
	f.put(pods("price-a", 1))
	web := httptest.NewTLSServer(f)
	t.Cleanup(web.Close)
	t.Cleanup(f.endWatches)
	r, dir := inPod(t, web)
	right := certificateOf(web)
	write(t, dir, "ca.crt", otherAuthority)
	w := watchList(t, r, target)
	w.fails("certificate")
	write(t, dir, "ca.crt", right)
	w.sees("price-1")
}

// Outside of a cluster, and with files that can't be used, a target is refused when it is dialed.
func TestAccessThatCanNotWork(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for want, o := range map[string]Option{
		"not in a pod": func(*options) {},
		"no such file": WithKubeconfig(filepath.Join(dir, "nowhere")),
		"not YAML":     WithKubeconfig(write(t, dir, "config", "\t{")),
		"more than":    WithKubeconfig(write(t, dir, "huge", strings.Repeat(" ", maxFile+1))),
	} {
		r := Resolver(o)
		err := r.(registry.Checker).Check(mustParse(t, target))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "kubernetes registry: ") {
			t.Errorf("%v, want %q", err, want)
		}
		if watched := r.Watch(t.Context(), mustParse(t, target), nil); watched == nil || watched.Error() != err.Error() {
			t.Errorf("Watch says %v, Check %v", watched, err)
		}
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	account := func(o *options) { o.serviceAccount = dir }
	for _, step := range []struct{ file, text, want string }{
		{"", "", "ca.crt: no such file"},
		{"ca.crt", "x", "token: no such file"},
		{"token", "t", "no PEM"},
	} {
		if step.file != "" {
			write(t, dir, step.file, step.text)
		}
		if err := Resolver(account).(registry.Checker).Check(mustParse(t, target)); err == nil || !strings.Contains(err.Error(), step.want) {
			t.Errorf("%v, want %q", err, step.want)
		}
	}
}

// kubeconfigText returns a kubeconfig with fields of its cluster and of its user.
func kubeconfigText(cluster, user string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: two\npreferences: {}\n"+
		"contexts:\n- {name: one, context: {cluster: x, user: x}}\n- {name: two, context: {cluster: c, user: u, namespace: n}}\n"+
		"clusters:\n- {name: x, cluster: {server: 'https://x'}}\n- {name: c, cluster: {%s}}\n"+
		"users:\n- {name: u, user: {%s}}\n", cluster, user)
}

// Tokens and certificates may stand in a kubeconfig, or in files beside it.
func TestKubeconfig(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "ca", "the authority")
	write(t, dir, "token", " from a file\n")
	data := base64.StdEncoding.EncodeToString([]byte("data"))
	for name, tc := range map[string]struct {
		cluster, user string
		want          access
	}{
		"a token":        {"server: 'https://h:6443/'", "token: secret", access{dialing{url: "https://h:6443"}, "secret"}},
		"a token's file": {"server: 'https://h/base/'", "token: secret, tokenFile: token", access{dialing{url: "https://h/base"}, "from a file"}},
		"an authority":   {"server: 'https://h', certificate-authority: ca, tls-server-name: other", "", access{dialing{url: "https://h", ca: "the authority", serverName: "other"}, ""}},
		"data":           {"server: 'https://h', certificate-authority: nowhere, certificate-authority-data: " + data, "", access{dialing{url: "https://h", ca: "data"}, ""}},
		"a certificate":  {"server: 'https://h'", "client-certificate-data: " + data + ", client-key: " + filepath.Join(dir, "ca"), access{dialing{url: "https://h", certificate: "data", key: "the authority"}, ""}},
		"kubectl proxy":  {"server: 'http://127.0.0.1:8001'", "", access{dialing{url: "http://127.0.0.1:8001"}, ""}},
	} {
		got, err := parseKubeconfig([]byte(kubeconfigText(tc.cluster, tc.user)), dir)
		if err != nil || got != tc.want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// What a kubeconfig wants and this package does not implement is refused by name, and no error
// shows a secret.
func TestKubeconfigRefusals(t *testing.T) {
	const https = "server: 'https://h'"
	for want, text := range map[string]string{
		"insecure-skip-tls-verify is not implemented": kubeconfigText(https+", insecure-skip-tls-verify: true", ""),
		"proxy-url is not implemented":                kubeconfigText(https+", proxy-url: 'http://p'", ""),
		"exec is not implemented":                     kubeconfigText(https, "exec: {command: aws}"),
		"auth-provider is not implemented":            kubeconfigText(https, "auth-provider: {name: gcp}"),
		"username and password is not implemented":    kubeconfigText(https, "password: canary"),
		"impersonation":                               kubeconfigText(https, "token: canary, as: admin"),
		"without TLS":                                 kubeconfigText("server: 'http://h'", "token: canary"),
		"no URL such as":                              kubeconfigText("server: 'https://user:canary@h'", ""),
		"client-key: its data are not base64":         kubeconfigText(https, "client-key-data: '%canary'"),
		"certificate-authority: open":                 kubeconfigText(https+", certificate-authority: nowhere", ""),
		"nowhere: no such file":                       kubeconfigText(https, "tokenFile: nowhere"),
		"names a cluster or a user":                   strings.Replace(kubeconfigText(https, ""), "cluster: c,", "cluster: y,", 1),
		`no context ""`:                               strings.Replace(kubeconfigText(https, ""), "current-context: two", "", 1),
		"not YAML":                                    "clusters: canary",
	} {
		a, err := parseKubeconfig([]byte(text), t.TempDir())
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%+v, %v, want %q", a, err, want)
		}
	}
	if _, err := (&dialing{certificate: "x"}).tls(); err == nil || !strings.Contains(err.Error(), "client certificate") {
		t.Errorf("a certificate without a key: %v", err)
	}
}

func FuzzKubeconfig(f *testing.F) {
	f.Add([]byte(kubeconfigText("server: 'https://h'", "token: x")))
	f.Add([]byte(kubeconfigText("server: 'https://h', certificate-authority-data: eA==", "exec: {command: x}")))
	f.Add([]byte(`{"current-context":"a","contexts":[{"name":"a","context":{"cluster":"b"}}],"clusters":[{"name":"b","cluster":{"server":"http://127.0.0.1:8001"}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := parseKubeconfig(text, "/nowhere")
		if err == nil && (!strings.HasPrefix(a.url, "http") || strings.HasPrefix(a.url, "http://") && a.token != "") {
			t.Fatalf("%q: %q", text, a.url)
		}
	})
}

// TestHidesSecrets: no error repeats parts of a target that may be secret.
func TestHidesSecrets(t *testing.T) {
	registrytest.HidesSecrets(t, "kubernetes", func(target string) error {
		at, err := registry.ParseTarget(target)
		if err != nil {
			return err
		}
		return Resolver().(registry.Checker).Check(at)
	})
}

// For a target that can never work, Watch returns at once with an error that says why.
func TestBadTargets(t *testing.T) {
	for target, reason := range map[string]string{
		"kubernetes:///price:tandem":                                "bad namespace",
		"kubernetes://Shop/price:tandem":                            "bad namespace",
		"kubernetes://shop":                                         "bad name of a Service",
		"kubernetes://shop/price":                                   "bad port",
		"kubernetes://shop/price:":                                  "bad port",
		"kubernetes://shop/a/b:tandem":                              "bad name of a Service",
		"kubernetes://shop/price:0":                                 "bad port",
		"kubernetes://shop/price:65536":                             "bad port",
		"kubernetes://shop/price:tandem?family=ipv5":                "bad family",
		"kubernetes://shop/price:tandem?weight=1":                   "unknown option",
		"kubernetes://" + strings.Repeat("x", 64) + "/price:tandem": "bad namespace",
	} {
		err := Resolver().Watch(t.Context(), mustParse(t, target), nil)
		if err == nil || !strings.Contains(err.Error(), reason) || !strings.HasPrefix(err.Error(), "kubernetes registry: ") {
			t.Errorf("%s: %v, want %q", target, err, reason)
		}
	}
}

// A target that is accepted can stand in a URL as it is.
func FuzzParse(f *testing.F) {
	for _, s := range []string{target, "kubernetes://a/b:1?family=ipv6", "kubernetes://a/b:c?transport=tls&protocol=grpc"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		parsed, err := registry.ParseTarget(s)
		if err != nil {
			return
		}
		if at, err := parse(parsed); err == nil && (strings.ContainsAny(at.namespace+at.service+at.port, "/?%&= ") || at.namespace == "" || at.service == "" || at.port == "" && at.number == 0) {
			t.Fatalf("%q: %+v", s, at)
		}
	})
}

// otherAuthority has issued nothing.
const otherAuthority = `-----BEGIN CERTIFICATE-----
MIIBdzCCAR2gAwIBAgIUDloU0DcvsD7NJS9oUsDLyZBX46swCgYIKoZIzj0EAwIw
EDEOMAwGA1UEAwwFb3RoZXIwIBcNMjYxMTI3MTQzOTEzWhgPMjEyNjExMDMxNDM5
MTNaMBAxDjAMBgNVBAMMBW90aGVyMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE
MEB5LVjN+GyM771+e0YVDq3oHyFH+jG7ybWPfQoVIN1/5Wb6JFTnvqC/yflWYukF
5xR7W483YmPiPC8iZGoqjaNTMFEwHQYDVR0OBBYEFLJBJfKXcwVoXBPFh4pYFAlm
PjzKMB8GA1UdIwQYMBaAFLJBJfKXcwVoXBPFh4pYFAlmPjzKMA8GA1UdEwEB/wQF
MAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIhAPH3HqHVi0gOTiUgZP95wi0sftPnjbRa
al5ScCekGQz8AiAxJKtXlcPPB9i6DeDdW2t/ccQGGdHILzjsbM4idHtBkg==
-----END CERTIFICATE-----`
