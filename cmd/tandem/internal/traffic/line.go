package traffic

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem/cmd/tandem/internal/listing"
)

// Line returns an event as a line of text: time, connection, direction, and what there is to say.
func (e *Event) Line() string {
	direction := map[string]string{"client": ">", "server": "<"}[e.From]
	if direction == "" {
		direction = "-"
	}
	parts := []string{e.At.Format("15:04:05.000"), strconv.Itoa(e.Conn), direction, e.Kind}
	if e.Protocol != "" && e.Kind != "close" {
		parts = append(parts, e.Protocol)
	}
	if e.Call != "" {
		parts = append(parts, "#"+e.Call)
	}
	for _, text := range []string{e.Method, e.Status} {
		if text != "" {
			parts = append(parts, text)
		}
	}
	if e.Size > 0 {
		parts = append(parts, fmt.Sprintf("%d bytes", e.Size))
	}
	if e.Took > 0 {
		parts = append(parts, "after "+time.Duration(e.Took*float64(time.Second)).Round(time.Microsecond).String())
	}
	if e.Detail != "" {
		parts = append(parts, "("+e.Detail+")")
	}
	if e.Payload != "" {
		parts = append(parts, e.Payload)
	}
	return strings.ReplaceAll(listing.Printable(strings.Join(parts, " ")), "\n", " ")
}
