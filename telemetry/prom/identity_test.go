package prom_test

import (
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tandem-rpc/tandem/internal/testcert"
	"github.com/tandem-rpc/tandem/plugin/authz"
	"github.com/tandem-rpc/tandem/telemetry/prom"
	"github.com/tandem-rpc/tandem/transport/tlsfiles"
)

// expiry is when the certificate of identityState expires.
var expiry = time.Now().Add(time.Hour).Truncate(time.Second)

// identityState returns collectors of TLS files and of authorization rules.
func identityState(t *testing.T) []prometheus.Collector {
	t.Helper()
	ca := testcert.NewAuthority(t, "ca")
	leaf := ca.Issue(t, func(c *x509.Certificate) { c.NotAfter = expiry })
	dir := t.TempDir()
	for name, text := range map[string][]byte{"tls.crt": leaf.CertPEM, "tls.key": leaf.KeyPEM, "ca.crt": ca.PEM()} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := tlsfiles.Open(tlsfiles.Config{Certificate: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"), Roots: filepath.Join(dir, "ca.crt")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(files.Close)
	rules, err := authz.Fixed(&authz.Rules{Version: "7"})
	if err != nil {
		t.Fatal(err)
	}
	return []prometheus.Collector{prom.CertificateCollector("shop", files), prom.AuthorizerCollector(rules)}
}

// Expiry and failures are metrics.
func TestIdentityMetrics(t *testing.T) {
	all := prometheus.NewPedanticRegistry()
	all.MustRegister(identityState(t)...)
	want := fmt.Sprintf(`
# HELP tandem_authz_rules_info 1, for the version of the rules in force.
# TYPE tandem_authz_rules_info gauge
tandem_authz_rules_info{version="7"} 1
# HELP tandem_tls_certificate_expiry_timestamp_seconds When the certificate in use expires, as Unix time.
# TYPE tandem_tls_certificate_expiry_timestamp_seconds gauge
tandem_tls_certificate_expiry_timestamp_seconds{certificate="shop"} %g
# HELP tandem_tls_reload_failing 1 while what the files hold can't be used.
# TYPE tandem_tls_reload_failing gauge
tandem_tls_reload_failing{certificate="shop"} 0
`, float64(expiry.Unix()))
	names := []string{"tandem_authz_rules_info", "tandem_tls_certificate_expiry_timestamp_seconds", "tandem_tls_reload_failing"}
	if err := testutil.GatherAndCompare(all, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}
