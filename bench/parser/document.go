package parser

import "github.com/tandem-rpc/tandem/bench/micro"

// documentMachine is where LittleRpc's document measured.
const documentMachine = "i7-12700H, Windows"

// document is one of the tables of LittleRpc's document.
type document struct {
	size  string
	limit int // bytes of a part of a message
	cells []cell
}

// cell is one parse of so many messages.
type cell struct {
	messages int
	figures  micro.Sample
}

// average returns the bytes of a message in the largest parse, where chance
// moves it least: time times throughput.
func (d document) average() int {
	last := d.cells[len(d.cells)-1]
	return int(last.figures.NS * last.figures.MBs / 1000 / float64(last.messages))
}

// documents are copied from the document as it prints them.
var documents = []document{
	{"small", 50, []cell{
		{1, micro.Sample{NS: 1270, MBs: 456.56, Bytes: 336, Allocs: 13}},
		{4, micro.Sample{NS: 2496, MBs: 810.50, Bytes: 960, Allocs: 38}},
		{16, micro.Sample{NS: 6727, MBs: 962.14, Bytes: 4531, Allocs: 155}},
		{64, micro.Sample{NS: 24468, MBs: 1194.60, Bytes: 19012, Allocs: 682}},
		{256, micro.Sample{NS: 100493, MBs: 1192.98, Bytes: 78170, Allocs: 2918}},
		{1024, micro.Sample{NS: 497628, MBs: 950.28, Bytes: 312600, Allocs: 11683}},
	}},
	{"medium", 500, []cell{
		{1, micro.Sample{NS: 2690, MBs: 643.98, Bytes: 1712, Allocs: 17}},
		{4, micro.Sample{NS: 6018, MBs: 1231.71, Bytes: 3802, Allocs: 44}},
		{16, micro.Sample{NS: 17869, MBs: 1971.36, Bytes: 18075, Allocs: 178}},
		{64, micro.Sample{NS: 49992, MBs: 2690.37, Bytes: 70509, Allocs: 717}},
		{256, micro.Sample{NS: 198202, MBs: 2957.98, Bytes: 300419, Allocs: 2980}},
		{1024, micro.Sample{NS: 916712, MBs: 2535.26, Bytes: 1198164, Allocs: 11808}},
	}},
	{"large", 5000, []cell{
		{1, micro.Sample{NS: 5139, MBs: 4499.36, Bytes: 10853, Allocs: 12}},
		{4, micro.Sample{NS: 14432, MBs: 5256.86, Bytes: 33658, Allocs: 41}},
		{16, micro.Sample{NS: 64842, MBs: 4892.87, Bytes: 147633, Allocs: 180}},
		{64, micro.Sample{NS: 351254, MBs: 3798.79, Bytes: 687040, Allocs: 742}},
		{256, micro.Sample{NS: 1405583, MBs: 3672.61, Bytes: 2646963, Allocs: 2972}},
		{1024, micro.Sample{NS: 6514426, MBs: 3201.06, Bytes: 10654489, Allocs: 11791}},
	}},
}
