package load

import (
	"crypto/tls"
	"net"
	"slices"
	"strings"
	"testing"
)

func TestOptionsAreInTheName(t *testing.T) {
	if o := parseOptions("tandem"); len(o) != 0 {
		t.Errorf("a peer alone has the options %q", o)
	}
	o := parseOptions("tandem+tls+metrics")
	if !slices.Equal(o, Options{"tls", "metrics"}) || !o.Has("tls") || o.Has("trace") {
		t.Errorf("the options are %q", o)
	}
	if err := o.check([]string{"metrics", "tls"}); err != nil {
		t.Error(err)
	}
	if err := o.check([]string{"tls"}); err == nil || !strings.Contains(err.Error(), `no option "metrics"`) {
		t.Errorf("error %v, want the option that is not known", err)
	}
}

func TestServerAndClientTrustEachOther(t *testing.T) {
	server, client, err := TLS()
	if err != nil {
		t.Fatal(err)
	}
	_, again, err := TLS() // as in another process
	if err != nil {
		t.Fatal(err)
	}
	client.ServerName = "127.0.0.1" // the server's address, which is not its name
	handshake := func(config *tls.Config) error {
		ours, theirs := net.Pipe()
		defer ours.Close()
		go func() { _ = tls.Server(theirs, server).Handshake(); _ = theirs.Close() }()
		return tls.Client(ours, config).Handshake()
	}
	if err := handshake(again); err != nil {
		t.Error(err)
	}
	if handshake(client) == nil {
		t.Error("a client took the server for another host")
	}
}
