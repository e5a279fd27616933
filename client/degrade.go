package client

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/internal/buffer"
	"github.com/tandem-rpc/tandem/internal/call"
	"github.com/tandem-rpc/tandem/internal/kept"
	"github.com/tandem-rpc/tandem/policy"
)

// DegradeCounts counts calls that failed and were answered by a [policy.Degrade].
type DegradeCounts struct {
	Default uint64 `json:"default"` // with the reply of the rule
	Last    uint64 `json:"last"`    // with the last good answer
}

// degraded is what a client answers calls with that have failed.
type degraded struct {
	answers  sync.Map // method to *kept.Answers
	byReply  atomic.Uint64
	byAnswer atomic.Uint64
}

func (d *degraded) counts() DegradeCounts {
	return DegradeCounts{Default: d.byReply.Load(), Last: d.byAnswer.Load()}
}

// Defaults of policy.Last.
const (
	lastAge     = time.Minute
	lastEntries = 1000
	lastBytes   = 1 << 20
)

// watch lets a rule answer the call if it fails.
func (d *degraded) watch(o *call.Outgoing, rule *policy.Degrade) {
	o.Fallback = func(ctx context.Context, args, reply any, err error) error {
		var key kept.Key
		keyed := false
		if rule.Last != nil {
			key, keyed = keyOfCall(ctx, o, args)
		}
		if err == nil {
			if keyed {
				d.keep(o, key, rule.Last)
			}
			return nil
		}
		if !degrades(rule, err) {
			return err
		}
		if keyed && d.answerLast(o, key, rule.Last, reply) {
			return nil
		}
		if rule.Reply != "" && d.answerDefault(o, rule, reply) {
			return nil
		}
		return err
	}
}

// degrades reports whether a rule is for an error.
func degrades(rule *policy.Degrade, err error) bool {
	codes := rule.On
	if len(codes) == 0 {
		codes = policy.DefaultDegradeCodes()
	}
	return slices.Contains(codes, strings.ReplaceAll(tandem.CodeOf(err).String(), " ", "_"))
}

func (d *degraded) of(method string) *kept.Answers {
	if a, ok := d.answers.Load(method); ok {
		return a.(*kept.Answers) //nolint:forcetypeassert // nothing else is stored
	}
	a, _ := d.answers.LoadOrStore(method, new(kept.Answers))
	return a.(*kept.Answers) //nolint:forcetypeassert // as above
}

func (d *degraded) keep(o *call.Outgoing, key kept.Key, l *policy.Last) {
	if message, compressed := o.Reply(); message != nil {
		d.of(o.Call.Method).Put(key, kept.Answer{Message: message, Compressed: compressed}, time.Now(), cmp.Or(l.Entries, lastEntries), cmp.Or(l.Bytes, lastBytes))
	}
}

func (d *degraded) answerLast(o *call.Outgoing, key kept.Key, l *policy.Last, reply any) bool {
	a, ok := d.of(o.Call.Method).Get(key, time.Now(), cmp.Or(time.Duration(l.MaxAge), lastAge))
	if !ok || o.DecodeOther(a.Message, a.Compressed, reply) != nil {
		return false
	}
	d.byAnswer.Add(1)
	mark(&o.Call, "last")
	return true
}

func (d *degraded) answerDefault(o *call.Outgoing, rule *policy.Degrade, reply any) bool {
	if reply != nil && codec.Decode(codec.JSON(), []byte(rule.Reply), reply) != nil {
		return false
	}
	d.byReply.Add(1)
	mark(&o.Call, "default")
	return true
}

// mark says in the call's trailer what it was answered with.
func mark(c *tandem.Call, by string) {
	md := c.Trailer.Clone()
	if md == nil {
		md = tandem.Metadata{}
	}
	md.Set(tandem.DegradedKey, by)
	c.Trailer = md
}

// keyOfCall returns what identifies the request of a call: its arguments, its metadata, and the
// caller that a handler makes it for. It returns false if the arguments can't be encoded.
func keyOfCall(ctx context.Context, o *call.Outgoing, args any) (key kept.Key, ok bool) {
	buf := buffer.Get()
	defer buf.Put()
	encoded, err := o.EncodedAgain(buf.B[:0], args)
	if err != nil {
		return key, false
	}
	buf.B = encoded
	h := sha256.New()
	part(h, o.Call.Codec)
	part(h, o.Call.Compressor)
	part(h, o.Call.HashKey)
	if r := o.Call.Route; r != nil {
		part(h, r.String())
	}
	partOf(h, encoded)
	metadata(h, o.Call.Metadata)
	if served := tandem.FromContext(ctx); served != nil {
		part(h, fmt.Sprintf("%T %v", served.Identity, served.Identity))
		metadata(h, tandem.Metadata{"authorization": served.Metadata.Values("authorization")})
	}
	h.Sum(key[:0])
	return key, true
}

func metadata(h hash.Hash, md tandem.Metadata) {
	for _, name := range slices.Sorted(maps.Keys(md)) {
		if name == tandem.CriticalityKey {
			continue
		}
		part(h, name)
		for _, v := range md[name] {
			part(h, v)
		}
		part(h, "")
	}
}

func part(h hash.Hash, text string) { partOf(h, []byte(text)) }

// partOf writes a text with its length, so that no two lists of texts are written alike.
func partOf(h hash.Hash, text []byte) {
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text))))
	_, _ = h.Write(text)
}
