package failmode

import (
	"errors"
	"fmt"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/session"
)

// Draining instances do not count in a broadcast, unless all drain.
func TestBroadcastVerdict(t *testing.T) {
	leaving := fmt.Errorf("%w: bye", session.ErrDraining)
	sick := tandem.Errorf(tandem.Unavailable, "sick")
	for _, c := range []struct {
		errs  []error
		share float64
		want  bool
	}{
		{[]error{nil, nil, nil}, 1, true},
		{[]error{nil, nil, leaving}, 1, true},
		{[]error{leaving, leaving}, 0, false},
		{[]error{nil, sick, leaving}, 1, false},
		{[]error{nil, sick, leaving}, 0.5, true},
		{[]error{nil, sick, sick, leaving}, 0.5, false},
		{[]error{sick, sick, leaving}, 0, false},
	} {
		var done []result
		for _, err := range c.errs {
			done = append(done, result{&tandem.Call{Peer: new(tandem.Peer)}, err})
		}
		m := &Modes{cfg: Config{BroadcastShare: c.share}}
		err := m.verdict(done)
		if (err == nil) != c.want || !c.want && !errors.Is(err, sick) && !errors.Is(err, session.ErrDraining) {
			t.Errorf("%v, share %v: %v", c.errs, c.share, err)
		}
	}
}

// An error of many instances names only some of them.
func TestFailuresNameAFew(t *testing.T) {
	var f failures
	for i := range 1000 {
		f = append(f, result{&tandem.Call{Peer: &tandem.Peer{Instance: fmt.Sprint("i", i)}}, tandem.Errorf(tandem.Internal, "no")})
	}
	want := "internal: 1000 of 1000 attempts failed: i0: internal: no; i1: internal: no; i2: internal: no; i3: internal: no; " +
		"i4: internal: no; i5: internal: no; i6: internal: no; i7: internal: no; and 992 more"
	if err := f.of(1000); err.Error() != want {
		t.Errorf("got %v", err)
	}
}
