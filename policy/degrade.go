package policy

import (
	"encoding/json"
	"slices"
	"strings"
)

// Degrade says what a unary call is answered with when it has failed with one of the codes, after
// all its attempts: the last good answer, if there is one, else Reply. A call that no instance's
// breaker lets through fails as "unavailable". Such an answer is marked: see tandem.DegradedKey.
type Degrade struct {
	On []string `json:"on,omitempty"` // DegradeCodes; by default unavailable, deadline_exceeded and resource_exhausted
	// Reply is the answer as JSON, which is decoded into the reply that the caller gives. It serves
	// types that encoding/json can decode, and messages of Protocol Buffers.
	Reply string `json:"reply,omitempty"`
	Last  *Last  `json:"last,omitempty"` // nil: answers are not kept
}

// Last says how the good answers of a method are kept, by request: its arguments, its metadata, and
// the caller that a handler makes it for. The zero fields stand for the defaults.
type Last struct {
	MaxAge  Duration `json:"maxAge,omitzero"`   // 1m by default
	Entries int      `json:"entries,omitempty"` // of the method; 1000 by default
	Bytes   int      `json:"bytes,omitempty"`   // of the method, encoded; 1 MiB by default
}

// Bounds of what is answered in place of a call.
const (
	maxReply       = 64 << 10
	maxLastEntries = 1_000_000
	maxLastBytes   = 1 << 30
)

// DegradeCodes are the names that [Degrade].On takes: the codes of calls that may have met a broken
// server. The other codes are answers.
func DegradeCodes() []string {
	return []string{"unavailable", "deadline_exceeded", "resource_exhausted", "internal", "unknown", "aborted", "data_loss"}
}

// DefaultDegradeCodes are those that an empty [Degrade].On means.
func DefaultDegradeCodes() []string { return DegradeCodes()[:3] }

func (c *checks) degrade(field string, d *Degrade) {
	if d == nil {
		return
	}
	for i, code := range d.On {
		c.addf(!slices.Contains(DegradeCodes(), code), "%s.on[%d]: %.40q is none of %s", field, i, code, strings.Join(DegradeCodes(), ", "))
	}
	c.addf(len(d.On) > len(DegradeCodes()), "%s.on: a code occurs twice", field)
	c.addf(d.Reply == "" && d.Last == nil, "%s: want a reply, a last, or both", field)
	c.addf(d.Reply != "" && !json.Valid([]byte(d.Reply)), "%s.reply: not JSON", field)
	c.addf(len(d.Reply) > maxReply, "%s.reply: more than %d bytes", field, maxReply)
	if l := d.Last; l != nil {
		c.duration(field+".last.maxAge", l.MaxAge)
		c.addf(l.Entries < 0 || l.Entries > maxLastEntries, "%s.last.entries: want 0 to %d", field, maxLastEntries)
		c.addf(l.Bytes < 0 || l.Bytes > maxLastBytes, "%s.last.bytes: want 0 to %d", field, maxLastBytes)
	}
}

// degradeValue returns the schema of a field of a Degrade or a Last that needs one of its own; nil
// for others.
func degradeValue(field string) schema {
	switch field {
	case "Degrade.On":
		return schema{"type": "array", "items": schema{"enum": DegradeCodes()}, "maxItems": len(DegradeCodes())}
	case "Degrade.Reply":
		return schema{"type": "string", "minLength": 1, "maxLength": maxReply, "contentMediaType": "application/json"}
	case "Last.Entries":
		return schema{"type": "integer", "minimum": 0, "maximum": maxLastEntries}
	case "Last.Bytes":
		return schema{"type": "integer", "minimum": 0, "maximum": maxLastBytes}
	}
	return nil
}
