package thrift_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/protocol/thrift/testdata/desk"
)

// counter serves the same methods as office, with types that have only tags for Thrift.
type counter struct{ notes chan string }

// Rarity is an enum.
type Rarity int32

// Sheet corresponds to desk.Paper.
type Sheet struct {
	Number  int32              `thrift:"number,1"`
	Title   string             `thrift:"title,2"`
	Note    *string            `thrift:"note,3,optional"`
	Kind    Rarity             `thrift:"kind,4"`
	Seal    []byte             `thrift:"seal,5"`
	Tags    []string           `thrift:"tags,6"`
	Pages   map[int32]struct{} `thrift:"pages,7"`
	Sums    map[string]int64   `thrift:"sums,8"`
	Answers *Sheet             `thrift:"answers,9"`
	Signed  bool               `thrift:"signed,10"`
	Copies  int8               `thrift:"copies,11"`
	Year    int16              `thrift:"year,12"`
	Weight  float64            `thrift:"weight,13"`
	Filed   int64              `thrift:"filed,14"`
}

// AddArgs has the parameters of Add.
type AddArgs struct {
	A int32 `thrift:"a,1"`
	B int64 `thrift:"b,2"`
}

// Add has net/rpc's shape.
func (*counter) Add(args *AddArgs, reply *int32) error {
	*reply = args.A + int32(args.B)
	return nil
}

func (*counter) Divide(_ context.Context, args *desk.DeskDivideArgs) (int64, error) {
	return new(office).Divide(context.Background(), args.A, args.B)
}

func (*counter) Mirror(s *Sheet, reply *Sheet) error {
	*reply = *s
	return nil
}

// KindOf is called by clients as kind_of.
func (*counter) KindOf(s Sheet) (Rarity, error) { return s.Kind, nil }

func (*counter) Pages(s Sheet) ([]int32, error) { return slices.Collect(maps.Keys(s.Pages)), nil }

func (*counter) Copies(s Sheet, count uint8) ([]*Sheet, error) {
	return slices.Repeat([]*Sheet{&s}, int(count)), nil
}

func (*counter) ByTitle(sheets []Sheet) (map[string]Sheet, error) {
	m := map[string]Sheet{}
	for _, s := range sheets {
		m[s.Title] = s
	}
	return m, nil
}

func (*counter) Blob(data string, reply *[]byte) error {
	*reply = []byte(data)
	return nil
}

func (*counter) Check(number int) error {
	if number == 0 {
		return fmt.Errorf("checking: %w", &desk.Locked{Key: "iron"})
	}
	return nil
}

func (*counter) Fail(how string) error { return new(office).Fail(context.Background(), how) }

func (c *counter) Note(text string) error {
	c.notes <- text
	return errors.New("nobody hears this")
}

func (*counter) Who(_ context.Context, call *tandem.Call) error { return call.Body.Encode("nobody") }

func (*counter) Ping() error { return nil }
