package nacos

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/registry/nacos/internal/standin"
)

// serve starts a server and returns its address.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	return web.Listener.Addr().String()
}

func answers(status int, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "http://elsewhere.invalid/")
		w.WriteHeader(status)
		w.Write([]byte(body))
	})
}

func TestOneServerIsEnough(t *testing.T) {
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead.Close()
	s := &standin.Server{}
	broken := answers(http.StatusServiceUnavailable, "server is STARTING now, please try again later!")
	target := "nacos://" + dead.Addr().String() + "," + serve(t, broken) + "," + serve(t, s) + "/S"
	r, err := New(target, WithPoll(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	v := look(t, r, target, 5*time.Second)
	register(t, r, server(1))
	v.shows(t, "server-1:0")
	if errs, _ := v.failures(); errs > 0 {
		t.Errorf("%d errors, although a server answered", errs)
	}
	if at := r.servers.current.Load(); at != 2 {
		t.Errorf("after three requests the next one begins with server %d", at)
	}
}

func TestServersThatAreNotNacos(t *testing.T) {
	for what, c := range map[string]struct {
		answer http.Handler
		want   string
	}{
		"a web page":     {answers(http.StatusOK, "<html>hello</html>"), "no JSON"},
		"another API":    {answers(http.StatusOK, "{}"), "is this a Nacos server?"},
		"a redirect":     {answers(http.StatusFound, "go there"), "status 302"},
		"a wrong path":   {answers(http.StatusNotFound, "no"), "status 404"},
		"a flood":        {answers(http.StatusOK, strings.Repeat(" ", 10001)), "more than"},
		"a long refusal": {answers(http.StatusBadRequest, strings.Repeat("x", 5000)), "status 400"},
	} {
		w := watch{servers: new(options).dial("http://" + serve(t, c.answer)), place: place{service: "S"}}
		w.servers.most = 10000
		_, err := w.ask(t.Context())
		if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 400 {
			t.Errorf("%s: got %.500v, want %q", what, err, c.want)
		}
		w.servers.close()
	}
}

func TestRequestsEndWithContext(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	silent := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-ctx.Done():
		case <-r.Context().Done():
		}
	}))
	defer stop()
	for _, opts := range [][]Option{nil, {WithAuth("a", "b")}} {
		r, err := New("nacos://"+silent+"/S", opts...)
		if err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		begin := time.Now()
		if err := r.vacantAt(short); err == nil || time.Since(begin) > 2*time.Second {
			t.Errorf("a silent server: %v after %v", err, time.Since(begin))
		}
		cancel()
		r.Close()
	}
}

// vacantAt makes the first request of a registration.
func (r *Registry) vacantAt(ctx context.Context) error {
	in := server(1)
	at, err := addressOf(&in)
	if err != nil {
		return err
	}
	e := &entry{servers: r.servers, place: r.place}
	return e.vacant(ctx, at, &in)
}

func TestClosedRegistry(t *testing.T) {
	r, err := New("nacos://127.0.0.1:1/S")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := r.Register(t.Context(), server(1)); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("registering after Close: %v", err)
	}
}
