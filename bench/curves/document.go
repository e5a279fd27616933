package curves

// Document is what seed 004 says of a curve. Its plots are pictures that are
// not kept; these are the figures of its text.
type Document struct {
	Source  string `json:"source"`
	Machine string `json:"machine"` // not ours: the figures show a shape
	QPS     int    `json:"qps"`     // where the curve ends
	Knee    int    `json:"knee"`    // an x, as the text gives it
	Says    string `json:"says"`
}

const (
	source  = "seed 004, a measurement of 2017-03-28: net/rpc with gob, Go 1.7.4, a method that multiplies two ints"
	machine = "two hosts of 12 cores (Xeon E5645, 2.40 GHz, 32 GB) and a network between them; GOMAXPROCS 4 at the server"
)

var (
	onRequests = Document{source, machine, 6000, 10_000,
		"QPS falls with the number of requests and stays at some 6,000 from 10,000 requests on"}
	onCallers = Document{source, machine, 60_000, 100,
		"100,000 calls by each caller: QPS hardly grows beyond 100 callers, a little over 60,000; no more than 150 are advised"}
	onConnections = Document{source, machine, 470_000, 100,
		"100 callers a connection with 100,000 calls each: QPS stays at some 470,000 beyond 100 connections"}
)
