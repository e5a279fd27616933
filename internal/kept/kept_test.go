package kept

import (
	"testing"
	"time"
)

func key(n byte) Key { return Key{n} }

func TestAnswersAreBounded(t *testing.T) {
	now := time.Unix(1000, 0)
	var a Answers
	message := make([]byte, 100)
	for i := range byte(10) {
		message[0] = i
		a.Put(key(i), Answer{Message: message}, now, 3, 1<<20)
	}
	for i := range byte(10) {
		got, ok := a.Get(key(i), now, time.Second)
		if ok != (i >= 7) || ok && got.Message[0] != i {
			t.Errorf("answer %d: %v", i, ok)
		}
	}
	if _, ok := a.Get(key(7), now, time.Second); !ok { // used last
		t.Error("7 is gone")
	}
	a.Put(key(20), Answer{Message: message}, now, 100, 2*(100+overhead))
	if _, ok := a.Get(key(8), now, time.Second); ok || len(a.byKey) != 2 || a.bytes != 2*(100+overhead) {
		t.Errorf("%v, %d answers, %d bytes", ok, len(a.byKey), a.bytes)
	}
	a.Put(key(20), Answer{Message: make([]byte, 1000)}, now, 100, 1000)
	if _, ok := a.Get(key(20), now, time.Second); ok {
		t.Error("an answer is kept that a larger one has replaced")
	}
	if _, ok := a.Get(key(7), now.Add(2*time.Second), time.Second); ok || len(a.byKey) != 0 || a.bytes != 0 {
		t.Errorf("old: %v, %d answers, %d bytes", ok, len(a.byKey), a.bytes)
	}
}
