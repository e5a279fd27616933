package web_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// narrow is a connection with a limited rate, in bytes a second. Written data waits in a
// buffer: a Write that slept while net/http holds a mutex would stop the virtual clock.
type narrow struct {
	net.Conn
	queue chan []byte
	once  sync.Once
}

func newNarrow(c net.Conn, rate int) *narrow {
	n := &narrow{Conn: c, queue: make(chan []byte, 10_000)}
	go func() {
		for p := <-n.queue; p != nil; p = <-n.queue {
			time.Sleep(time.Second * time.Duration(len(p)) / time.Duration(rate)) // virtual
			if _, err := c.Write(p); err != nil {
				return
			}
		}
	}()
	return n
}

func (n *narrow) Write(p []byte) (int, error) {
	n.queue <- bytes.Clone(p)
	return len(p), nil
}

func (n *narrow) Close() error {
	n.once.Do(func() { n.queue <- nil })
	return n.Conn.Close()
}

// Uploads that share an HTTP/2 connection on a slow link all arrive, though 64 KiB of each
// take longer than the stall timeout: 20 of 200 KiB at 256 kbit/s, as requests and as
// messages of streams. An upload that stalls is ended when the others have arrived.
func TestUploadsShareASlowLink(t *testing.T) {
	for _, path := range []string{"/Len", "/Numbers/Sum"} {
		t.Run(path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const uploads, size, rate = 20, 200 << 10, 32 << 10
				w := newHostileTest(t)
				tr := &http.Transport{
					DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
						c, err := w.net.Dial(ctx, "a")
						if err != nil {
							return nil, err
						}
						return newNarrow(c, rate), nil
					},
					Protocols: new(http.Protocols),
				}
				tr.Protocols.SetUnencryptedHTTP2(true)
				c := &http.Client{Transport: tr}
				post := func(body io.Reader) (int, string, error) {
					req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost"+path, body)
					w.must(err)
					req.Header.Set("Content-Type", "application/json")
					if path != "/Len" {
						req.Header.Set("Content-Type", "application/connect+json")
					}
					res, err := c.Do(req)
					if err != nil {
						return 0, "", err
					}
					defer func() { _ = res.Body.Close() }()
					text, err := io.ReadAll(res.Body)
					return res.StatusCode, string(text), err
				}
				message := []byte(`"` + strings.Repeat("x", size-2) + `"`)
				if path != "/Len" {
					message = envelope([]byte(strings.Repeat(" ", size-1) + "1"))
				}
				var all sync.WaitGroup
				stalled, hold := io.Pipe()
				all.Go(func() {
					began := time.Now()
					status, text, err := post(stalled)
					if took := time.Since(began); took < stall || took > 3*time.Minute {
						t.Errorf("one that does not come: %d %s, %v after %v", status, text, err, took)
					}
				})
				_, err := hold.Write(message[:100])
				w.must(err)
				start := time.Now()
				for range uploads {
					all.Go(func() {
						status, text, err := post(bytes.NewReader(message))
						if err != nil || status != http.StatusOK || path != "/Len" && !strings.Contains(text, "no more after 1") {
							t.Errorf("after %v: %d %s, %v", time.Since(start), status, text, err)
						}
					})
				}
				all.Wait()
				w.must(hold.Close())
				tr.CloseIdleConnections()
				time.Sleep(time.Minute) // virtual, until the queued data is written
			})
		})
	}
}

func envelope(message []byte) []byte {
	n := len(message)
	return append([]byte{0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, message...)
}
