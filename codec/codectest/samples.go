package codectest

import "time"

// Order is a typical message of about 600 bytes when encoded. Codecs that use
// reflection can be measured and fuzzed with it.
type Order struct {
	ID       uint64            `json:"id" msgpack:"id"`
	Customer string            `json:"customer" msgpack:"customer"`
	Placed   time.Time         `json:"placed" msgpack:"placed"`
	Lines    []Line            `json:"lines" msgpack:"lines"`
	Labels   map[string]string `json:"labels" msgpack:"labels"`
	Note     []byte            `json:"note" msgpack:"note"`
	Gift     *Line             `json:"gift,omitempty" msgpack:"gift,omitempty"`
	Total    float64           `json:"total" msgpack:"total"`
	Paid     bool              `json:"paid" msgpack:"paid"`
}

// Line is a part of an [Order].
type Line struct {
	Article string  `json:"article" msgpack:"article"`
	Count   int32   `json:"count" msgpack:"count"`
	Price   float64 `json:"price" msgpack:"price"`
}

// SampleOrder returns an order that uses all of its fields.
func SampleOrder() *Order {
	order := &Order{
		ID:       1_234_567_890_123,
		Customer: "Hercule & Söhne GmbH, Industriestraße 17, Wuppertal",
		Placed:   time.Date(2026, 2, 3, 4, 5, 6, 789_000_000, time.UTC),
		Labels:   map[string]string{"channel": "telephone", "priority": "high", "region": "north-west"},
		Note:     []byte("leave at the back door; the dog is friendly, the cat is not"),
		Gift:     &Line{Article: "bookmark, leather", Count: 1},
		Total:    1042.75,
		Paid:     true,
	}
	for _, article := range []string{"lamp, brass", "lamp, steel", "shade, green", "shade, white", "cable, 3 m"} {
		order.Lines = append(order.Lines, Line{Article: article, Count: 3, Price: 69.5})
	}
	return order
}

// Nested is a message whose types refer to themselves.
type Nested struct {
	Name     string
	Children []*Nested
	ByName   map[string]*Nested
}

// SampleNested returns a message nested depth deep.
func SampleNested(depth int) *Nested {
	n := &Nested{Name: "leaf"}
	for range depth {
		n = &Nested{Name: "node", Children: []*Nested{n, {Name: "twig"}}, ByName: map[string]*Nested{"x": {}}}
	}
	return n
}

// Numbers has every basic kind.
type Numbers struct {
	I8   int8
	I16  int16
	I32  int32
	I64  int64
	I    int
	U8   uint8
	U16  uint16
	U32  uint32
	U64  uint64
	U    uint
	F32  float32
	F64  float64
	B    bool
	Grid [2][3]int
	Many []int64
}

// SampleNumbers returns Numbers with extreme values.
func SampleNumbers() *Numbers {
	return &Numbers{
		I8: -128, I16: -32768, I32: -1 << 31, I64: -1 << 63, I: -1,
		U8: 255, U16: 65535, U32: 1<<32 - 1, U64: 1<<64 - 1, U: 1,
		F32: 0.25, F64: -1e300, B: true,
		Grid: [2][3]int{{1, 2, 3}, {4, 5, 6}}, Many: []int64{0, 1, -1, 1 << 40},
	}
}
