package adapter

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

func TestFeed(t *testing.T) {
	var got []registry.Snapshot
	f := NewFeed(func(s registry.Snapshot) { got = append(got, s) })
	down := errors.New("down")

	f.List(nil)
	f.List(nil)
	f.List(members("b", "a"))
	f.List(members("a", "b")) // the same, in another order
	f.Fail(down)
	f.Fail(down)
	f.List(members("a", "b")) // the same, but the failure is over
	f.List(nil)

	want := []registry.Snapshot{
		{Revision: 1},
		{Revision: 2, Instances: members("a", "b")},
		{Revision: 2, Err: down},
		{Revision: 2, Err: down},
		{Revision: 2, Instances: members("a", "b")},
		{Revision: 3},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// equal compares every field of an instance; the test fails when a new field is not compared.
func TestEqualComparesEveryField(t *testing.T) {
	base := tandem.Instance{}
	if !equal(base, tandem.Instance{Tags: map[string]string{}, Services: []string{}}) {
		t.Error("empty and nil differ")
	}
	fields := reflect.TypeFor[tandem.Instance]()
	for i := range fields.NumField() {
		changed := base
		change(t, reflect.ValueOf(&changed).Elem().Field(i))
		if equal(base, changed) {
			t.Errorf("equal does not compare %s", fields.Field(i).Name)
		}
	}
}

// change sets v to something that is not its zero value.
func change(t *testing.T, v reflect.Value) {
	t.Helper()
	if _, ok := reflect.TypeAssert[time.Time](v); ok {
		v.Set(reflect.ValueOf(time.Unix(1, 0)))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Int:
		v.SetInt(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("x"), reflect.ValueOf("y"))
	default:
		t.Fatalf("teach this test to change a %v", v.Type())
	}
}

func TestEqualComparesPositionAndLoad(t *testing.T) {
	at := time.Unix(1, 0)
	base := tandem.Instance{Position: &tandem.Position{Latitude: 1}, Load: &tandem.Load{At: at, Rate: 2}}
	same := base.Clone()
	same.Load.At = at.UTC()
	if !equal(base, same) {
		t.Error("equal values behind different pointers differ")
	}
	for what, change := range map[string]func(*tandem.Instance){
		"position": func(in *tandem.Instance) { in.Position.Longitude = 1 },
		"rate":     func(in *tandem.Instance) { in.Load.Rate = 3 },
		"time":     func(in *tandem.Instance) { in.Load.At = at.Add(1) },
	} {
		other := base.Clone()
		change(&other)
		if equal(base, other) {
			t.Errorf("equal does not compare the %s", what)
		}
	}
}
