package http2calls

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What a server must not send ends the connection at once, with a GOAWAY that says why, and its calls
// with an error that says that they may have run.
func TestBrokenServers(t *testing.T) {
	flood := func(kind, flags byte, stream uint32, payload string) func(p *peer) error {
		return func(p *peer) error {
			for range 5000 {
				if err := p.send(kind, flags, stream, payload); err != nil {
					return err
				}
			}
			return nil
		}
	}
	once := func(b string) func(p *peer) error {
		return func(p *peer) error {
			_, err := p.Write([]byte(b))
			return err
		}
	}
	for name, hostile := range map[string]func(p *peer) error{
		"HTTP/1.1":            once("HTTP/1.1 400 Bad Request\r\n\r\n"),
		"a frame too large":   once("\x00\x40\x01\x00\x00\x00\x00\x00\x01"),
		"push":                once(string(frame(5, endHeaders, 1, "\x00\x00\x00\x02"+ok))),
		"data of no stream":   once(string(frame(data, 0, 3, "x"))),
		"data without header": flood(data, 0, 1, "x"),
		"a request":           once(string(frame(headers, endHeaders, 2, ok))),
		"window too large":    once(string(frame(windowUpdate, 0, 0, words(1<<31-1)))),
		"window by nothing":   once(string(frame(windowUpdate, 0, 0, words(0)))),
		"broken compression":  once(string(frame(headers, endHeaders, 1, "\xff\xff\xff\xff\xff\xff"))),
		"SETTINGS":            flood(settings, 0, 0, setting(4, 70000)),
		"PING":                flood(ping, 0, 0, "12345678"),
		"PING answers":        flood(ping, ack, 0, "12345678"),
		"empty DATA":          func(p *peer) error { return errors.Join(p.send(headers, endHeaders, 1, ok), flood(data, 0, 1, "")(p)) },
		"PRIORITY":            flood(2, 0, 1, "\x00\x00\x00\x00\x01"),
		"WINDOW_UPDATE":       flood(windowUpdate, 0, 1, words(1)),
		"interim headers":     flood(headers, endHeaders, 1, "\x08\x03100"),
		"unknown frames":      flood(77, 0, 0, "x"),
		"a header without end": func(p *peer) error {
			return errors.Join(p.send(headers, 0, 1, ok), flood(continuation, 0, 1, strings.Repeat("\x00\x01a\x01b", 1000))(p))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := begin(t, Config{}, func(p *peer) error {
					if err := p.greet(""); err != nil {
						return err
					}
					if f, err := p.until(data); err != nil || f.flags&endStream == 0 {
						return errors.Join(err, errors.New("the request has not ended"))
					}
					told := make(chan error, 1)
					go func() {
						_, err := p.until(goAway)
						told <- err
					}()
					if err := hostile(p); err != nil && !isEnd(err) {
						return err
					}
					return <-told
				})
				began := time.Now()
				_, err := call(t.Context(), c, "message")
				if e := failure(t, err); e.NotExecuted || time.Since(began) > time.Second {
					t.Errorf("after %v: %+v", time.Since(began), e)
				}
				if name == "data without header" { // which ends the stream only
					return
				}
				<-c.Done()
				if _, err := call(t.Context(), c, "x"); !failure(t, err).NotTaken {
					t.Errorf("the next call: %v", err)
				}
			})
		})
	}
}

// What is wrong with one response ends that call only.
func TestBrokenResponses(t *testing.T) {
	for name, row := range map[string]struct {
		answer func(p *peer) error
		want   string
	}{
		"no status": {func(p *peer) error { return p.send(headers, endHeaders, 1, noStatus) }, "PROTOCOL_ERROR"},
		"a capital": {func(p *peer) error { return p.send(headers, endHeaders, 1, capital) }, "PROTOCOL_ERROR"},
		"too large": {func(p *peer) error { return errors.Join(p.send(headers, endHeaders, 1, ok), large(p)) }, ErrTooLarge.Error()},
		"length that lies": {func(p *peer) error {
			return errors.Join(p.send(headers, endHeaders, 1, ok+"\x0f\x0d\x019"), p.send(data, endStream, 1, "x"))
		}, "PROTOCOL_ERROR"},
		"a second header": {func(p *peer) error {
			return errors.Join(p.send(headers, endHeaders, 1, ok), p.send(headers, endHeaders, 1, finished))
		}, "PROTOCOL_ERROR"},
		"refused": {func(p *peer) error { return p.send(reset, 0, 1, words(7)) }, "REFUSED_STREAM"},
		"reset":   {func(p *peer) error { return p.send(reset, 0, 1, words(2)) }, "INTERNAL_ERROR"},
		"reset in the midst": {func(p *peer) error {
			return errors.Join(p.send(headers, endHeaders, 1, ok), p.send(reset, 0, 1, words(7)))
		}, "REFUSED_STREAM"},
		"a large header": {func(p *peer) error {
			return p.send(headers, endHeaders, 1, ok+"\x40\x01a\x7f\xb9\x16"+strings.Repeat("b", 3000)+strings.Repeat("\xbe", 400))
		}, ErrAnswerHeader.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := begin(t, Config{}, func(p *peer) error {
					if err := p.greet(""); err != nil {
						return err
					}
					if _, err := p.until(data); err != nil {
						return err
					}
					sent := make(chan error, 1)
					go func() { sent <- row.answer(p) }()
					return errors.Join(p.requests(), <-sent)
				})
				_, err := call(t.Context(), c, "message")
				if err == nil || !strings.Contains(err.Error(), row.want) {
					t.Errorf("%v, want %s", err, row.want)
				}
				if e, ok := errors.AsType[*FailedError](err); ok && e.NotExecuted != (name == "refused") {
					t.Errorf("%+v", e)
				}
				if got, err := call(t.Context(), c, "another"); err != nil || got != "another" {
					t.Errorf("the next call: %q, %v", got, err)
				}
			})
		})
	}
}

// large sends more than a call takes.
func large(p *peer) error {
	for range 1<<20/16384 + 1 {
		if err := p.send(data, 0, 1, strings.Repeat("x", 16384)); err != nil {
			return err
		}
	}
	return nil
}

// A server that is silent is asked, as often as servers allow, and given up if it does not answer.
func TestSilentServer(t *testing.T) {
	for _, answers := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			var asked []time.Duration
			c := begin(t, Config{}, func(p *peer) error {
				if err := p.greet(""); err != nil {
					return err
				}
				for {
					f, err := p.until(ping)
					if err != nil {
						return err
					}
					asked = append(asked, time.Since(began))
					if answers {
						if err := p.send(ping, ack, 0, string(f.payload)); err != nil {
							return err
						}
					}
				}
			})
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
			defer cancel()
			_, err := call(ctx, c, "message")
			took := time.Since(began)
			_ = c.Close()
			synctest.Wait()
			switch {
			case !answers && (took != silences[0]+stall || failure(t, err).NotExecuted):
				t.Errorf("after %v: %v", took, err)
			case answers && (took != 20*time.Minute || !errors.Is(err, context.DeadlineExceeded)):
				t.Errorf("after %v: %v", took, err)
			}
			often := 0
			for i := 1; i < len(asked); i++ {
				if asked[i]-asked[i-1] < 5*time.Minute {
					often++
				}
			}
			if len(asked) == 0 || often > 2 {
				t.Errorf("asked after %v", asked)
			}
		})
	}
}

// The connection to a server that does not read ends after the stall time, and so do its calls.
func TestServerThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, Config{}, func(p *peer) error {
			err := p.greet("")
			time.Sleep(time.Hour)
			return err
		})
		began := time.Now()
		_, err := call(t.Context(), c, strings.Repeat("x", 1<<20))
		if took := time.Since(began); took > stall+time.Second || err == nil {
			t.Errorf("after %v: %v", took, err)
		}
		_ = c.Close()
		time.Sleep(2 * time.Hour) // until the server has ended; a bubble's time
	})
}

// A server that sends no settings keeps Start waiting until its context ends.
func TestServerWithoutSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nc := play(t, ignore)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, err := Start(ctx, nc, Config{Stall: stall}); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// A server of HTTP/1.1 is called one.
func TestOldServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nc := play(t, func(p *peer) error {
			go func() { _ = ignore(p) }()
			_, err := p.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			return err
		})
		if _, err := Start(t.Context(), nc, Config{Stall: stall}); !errors.Is(err, errOld) {
			t.Error(err)
		}
	})
}

func ignore(p *peer) error {
	for {
		if _, err := p.next(); err != nil {
			return err
		}
	}
}
