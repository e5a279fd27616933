package sim

// Chart is one plot as data, in the JSON that "bench draw" reads. Its type is repeated here, as
// a package of the core can't import that of bench.
type Chart struct {
	Name   string   `json:"name"` // of the file, without its ending
	Title  string   `json:"title"`
	X      string   `json:"x"` // what the axis means, and its unit
	Y      string   `json:"y"`
	LogY   bool     `json:"log_y,omitempty"`
	Ticks  []Tick   `json:"ticks,omitempty"`
	Bars   bool     `json:"bars,omitempty"`
	Series []Series `json:"series"`
}

// Tick is a mark of the horizontal axis.
type Tick struct {
	At    float64 `json:"at"`
	Label string  `json:"label"`
}

// Series is one line, or one colour of bars.
type Series struct {
	Name   string  `json:"name"`
	Style  int     `json:"style"`
	Strong bool    `json:"strong,omitempty"` // red
	Dashed bool    `json:"dashed,omitempty"` // grey
	Points []Point `json:"points"`
}

// Point is a value; Low and High are its spread, equal to Y if there is none.
type Point struct {
	X    float64 `json:"x"`
	Y    float64 `json:"y"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}
