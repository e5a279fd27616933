package web_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A connection of HTTP/2 without requests stays open for the idle timeout, whatever its client
// answers to PING meanwhile.
func TestIdleHTTP2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHostileTest(t)
		var dials atomic.Int64
		tr := &http.Transport{Protocols: new(http.Protocols), DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			dials.Add(1)
			return w.net.Dial(ctx, "a")
		}}
		tr.Protocols.SetUnencryptedHTTP2(true)
		defer tr.CloseIdleConnections()
		for i, row := range []struct {
			pause time.Duration
			dials int64
		}{{0, 1}, {4 * time.Minute, 1}, {4 * time.Minute, 1}, {5*time.Minute + 2*time.Second, 2}} {
			time.Sleep(row.pause) // virtual
			if a := w.do(&http.Client{Transport: tr}, "POST /Len", asJSON, `"abc"`); a.Body != "3" || dials.Load() != row.dials {
				t.Errorf("call %d after %v: %+v; %d connections so far, want %d", i, row.pause, a, dials.Load(), row.dials)
			}
		}
	})
}

// A client of HTTP/2 that does not answer PING is gone.
func TestSilentHTTP2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pingAfter = 30 * time.Second
		conn := newHostileTest(t).raw(http2Preface)
		began := time.Now()
		_, _ = io.Copy(io.Discard, conn.r) // until the server closes the connection
		if took := time.Since(began); took < pingAfter || took > pingAfter+stall+time.Second {
			t.Errorf("closed after %v, want %v", took, pingAfter+stall)
		}
		_ = conn.Close()
	})
}

// A client of HTTP/2 may send 100 frames a second that further no message, however they are spread.
func TestPingsHTTP2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ping = "\x00\x00\x08\x06\x00\x00\x00\x00\x00ping-me!"
		conn := newHostileTest(t).raw(http2Preface)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = io.Copy(io.Discard, conn.r)
		}()
		for i := range 5000 {
			time.Sleep(9 * time.Millisecond) // virtual
			if _, err := io.WriteString(conn, ping); err != nil {
				t.Fatalf("PING %d: %v", i, err)
			}
		}
		_ = conn.Close()
		<-ended
	})
}
