package transport_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem/transport"
)

// Bytes that an engine delivers are read later.
func ExampleNewInbox() {
	in := transport.NewInbox()
	fmt.Fprint(in, "hel")
	fmt.Fprint(in, "lo")
	in.End(io.EOF)
	b, err := io.ReadAll(in)
	fmt.Println(string(b), err)
	// Output: hello <nil>
}

func TestInboxIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, written := transport.NewInbox(), 0
		go func() {
			for range 100 {
				n, err := in.Write(make([]byte, 1000))
				if written += n; err != nil {
					return
				}
			}
		}()
		synctest.Wait()
		if written > 64<<10 || written < 60<<10 {
			t.Errorf("%d bytes went in unread", written)
		}
		if n, err := io.ReadFull(in, make([]byte, 10_000)); err != nil {
			t.Error(n, err)
		}
		in.Close()
		synctest.Wait() // the writer has ended, or the bubble does not
		if _, err := in.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}

func TestInboxDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, start := transport.NewInbox(), time.Now()
		if err := in.SetReadDeadline(start.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := in.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if err := in.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Hour, func() { _, _ = in.Write([]byte("x")) })
		if n, err := in.Read(make([]byte, 1)); n != 1 || err != nil {
			t.Error(n, err)
		}
	})
}

func TestInboxWriteDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, start := transport.NewInbox(), time.Now()
		if err := in.SetWriteDeadline(start.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if n, err := in.Write(make([]byte, 100_000)); n != 64<<10 || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Minute {
			t.Errorf("%d bytes, %v after %v", n, err, time.Since(start))
		}
		in.Close()
	})
}
