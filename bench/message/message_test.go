package message

import (
	"testing"

	"google.golang.org/protobuf/proto"
)

func TestSizeIsTheSeeds(t *testing.T) {
	if got := New().SizeVT(); got != Size {
		t.Errorf("encoded size is %d bytes, the documents say %d", got, Size)
	}
}

func TestEverySingularFieldIsSet(t *testing.T) {
	m := New().ProtoReflect()
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		if f := fields.Get(i); !f.IsList() && !m.Has(f) {
			t.Errorf("%s is not set", f.Name())
		}
	}
	if fields.Len() != 40 {
		t.Errorf("the message has %d fields, the documents' has 40", fields.Len())
	}
}

func TestAppendToDecodesToTheSame(t *testing.T) {
	want := New()
	b, err := AppendTo([]byte("kept"), want)
	if err != nil {
		t.Fatal(err)
	}
	if string(b[:4]) != "kept" {
		t.Errorf("AppendTo changed what stood before: %q", b[:4])
	}
	got := new(BenchmarkMessage)
	if err := got.UnmarshalVT(b[4:]); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(got, want) {
		t.Errorf("decoded to %v, want %v", got, want)
	}
}

func TestCheckSeesWhetherTheServerAnswered(t *testing.T) {
	m := New()
	if Check(m) == nil {
		t.Error("Check accepts an unanswered message")
	}
	if Answer(m); Check(m) != nil {
		t.Errorf("Check rejects an answer: %v", Check(m))
	}
}

func TestShareForgetsNoField(t *testing.T) {
	src, dst := New(), new(BenchmarkMessage)
	src.Field5 = []uint64{1, 2}
	if Share(dst, src); !proto.Equal(dst, src) {
		t.Errorf("shared %v, want %v", dst, src)
	}
}
