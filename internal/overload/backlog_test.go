package overload_test

import (
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/internal/overload"
)

// The age of the bytes that are read is the time in which the unread ones arrived, and at most
// the time since the buffer was last empty.
func TestBacklog(t *testing.T) {
	const tick = 20 * ms
	var b overload.Backlog
	b.Waited(second)
	now := second
	look := func(read, unread int, last time.Duration) time.Duration {
		now += tick
		if !b.Read(read, now, 10*time.Millisecond) {
			t.Fatal("Read does not ask for Count after 20 ms")
		}
		b.Count(unread, last, now)
		return time.Duration(b.Age())
	}
	if age := look(1000, 2000, 0); age != 40*time.Millisecond/3 { // 3,000 bytes have come
		t.Errorf("a third of what came is read: %v", age)
	}
	for range 9 { // 2,000 more each time
		look(1000, 3000, 0)
	}
	if age := look(1000, 3000, 0); age != 60*time.Millisecond { // 1,000 bytes come in 20 ms, 3,000 wait
		t.Errorf("as many come as are read: %v", age)
	}
	if age := look(1000, 2000, 0); age != 80*time.Millisecond {
		t.Errorf("nothing comes: %v, want that it grows older", age)
	}
	if age := look(2000, 0, 5*time.Millisecond); age != 5*time.Millisecond {
		t.Errorf("nothing is left: %v, want the age of the last byte", age)
	}
	if age := look(10, 1<<20, 0); age > time.Duration(tick) {
		t.Errorf("%v, older than the last time that nothing was left", age)
	}
	if b.Read(10, now+ms, 10*time.Millisecond) {
		t.Error("Read asks for Count after 1 ms")
	}
	b.Waited(now + ms)
	if b.Age() != 0 {
		t.Errorf("what was waited for is %v old", time.Duration(b.Age()))
	}
}

// Old requests in a receive buffer make the gate guard, though no goroutine waits for a processor.
func TestUnreadRequestsEngage(t *testing.T) {
	calm := overload.Load{Timeout: time.Second}
	for age, want := range map[time.Duration]bool{90 * time.Millisecond: false, 110 * time.Millisecond: true} {
		g := overload.New(overload.Config{})
		m := g.Method(0)
		if v, _ := g.Ask(&overload.Request{Method: m}, 1); v != overload.Run {
			t.Fatal("a request waits without overload")
		}
		g.Behind(time.Millisecond)
		g.Behind(age)
		g.Behind(2 * time.Millisecond)
		g.Sample(calm, 1)
		if g.Guarding() != want {
			t.Errorf("%v: guarding is %v", age, g.Guarding())
		}
	}
}
