package tandem

import (
	"context"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// Baggage holds pairs that travel with a call, and with the calls that its handler makes, from
// service to service: for example the lane of a test. It is W3C's Baggage
// (https://www.w3.org/TR/baggage/), and travels as the metadata [BaggageKey].
//
// Which pairs travel, from which callers and to which targets, is decided by WithBaggage of packages
// server and client. Baggage is not a place for secrets. The zero value is empty. A Baggage does not
// change, so it is safe for concurrent use.
type Baggage struct{ text string } // valid members, each key once, separated by commas

// Bounds of [Baggage].
const (
	MaxBaggage        = 8192 // bytes of its text
	MaxBaggageMembers = 64   // pairs
)

// BaggageKey is the key of a call's [Baggage] in its metadata.
const BaggageKey = "baggage"

// ParseBaggage returns the pairs of lists in W3C's form, such as "lane=blue,tenant=7". It leaves
// out pairs that are not valid, and those beyond [MaxBaggage] and [MaxBaggageMembers], and counts
// them. Of pairs with one key the last is taken. Properties of pairs are kept.
func ParseBaggage(lists ...string) (b Baggage, dropped int) {
	var members, keys []string
	room := MaxBaggage
	for i, list := range lists {
		if i > 0 {
			room-- // for a comma
		}
		if len(list) > room { // a peer's text costs no more than a valid one
			fits := strings.LastIndexByte(list[:max(0, room)], ',') + 1
			dropped += 1 + strings.Count(list[fits:], ",")
			list = list[:fits]
		}
		room -= len(list)
		for member := range strings.SplitSeq(list, ",") {
			member = strings.Trim(member, " \t")
			if member == "" {
				continue
			}
			key, rest, ok := cutMember(member)
			at := slices.Index(keys, key)
			switch {
			case !ok, at < 0 && len(keys) == MaxBaggageMembers:
				dropped++
			case at < 0:
				keys, members = append(keys, key), append(members, key+"="+rest)
			default:
				members[at] = key + "=" + rest
			}
		}
	}
	return Baggage{strings.Join(members, ",")}, dropped
}

// cutMember returns the key of a member and what follows its equals sign, without the white space
// that may be round them; false if the member is not valid.
func cutMember(member string) (key, rest string, ok bool) {
	key, rest, ok = strings.Cut(member, "=")
	key, rest = strings.TrimRight(key, " \t"), strings.TrimLeft(rest, " \t")
	if !ok || !isToken(key) {
		return "", "", false
	}
	value, properties, _ := strings.Cut(rest, ";")
	if strings.ContainsFunc(strings.TrimRight(value, " \t"), isNoBaggageOctet) {
		return "", "", false
	}
	noText := func(r rune) bool { return r != ' ' && r != '\t' && r != ';' && isNoBaggageOctet(r) }
	return key, rest, !strings.ContainsFunc(properties, noText)
}

// isNoBaggageOctet reports whether a rune can't stand in a value.
func isNoBaggageOctet(r rune) bool {
	return r <= ' ' || r >= 0x7f || r == '"' || r == ',' || r == ';' || r == '\\'
}

// isToken reports whether s is a token of RFC 9110.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"(),/:;<=>?@[\\]{}", r)
	})
}

func joined(list, member string) string {
	if list == "" {
		return member
	}
	return list + "," + member
}

// members yields the pairs as they are written: the key, and the rest behind the equals sign.
func (b Baggage) members() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for list := b.text; list != ""; {
			var member string
			member, list, _ = strings.Cut(list, ",")
			key, rest, _ := strings.Cut(member, "=")
			if !yield(key, rest) {
				return
			}
		}
	}
}

// valueOf decodes what is behind the equals sign of a member.
func valueOf(rest string) string {
	text, _, _ := strings.Cut(rest, ";")
	text = strings.TrimRight(text, " \t")
	if !strings.Contains(text, "%") {
		return text
	}
	value, err := url.PathUnescape(text)
	if err != nil {
		return text // a % that begins no escape stands for itself
	}
	return strings.ToValidUTF8(value, "\ufffd")
}

// Get returns the value of key, "" if there is none. Keys are case-sensitive.
func (b Baggage) Get(key string) string {
	for k, rest := range b.members() {
		if k == key {
			return valueOf(rest)
		}
	}
	return ""
}

// Len returns how many pairs there are.
func (b Baggage) Len() int {
	if b.text == "" {
		return 0
	}
	return 1 + strings.Count(b.text, ",")
}

// All yields the pairs in their order.
func (b Baggage) All() iter.Seq2[string, string] {
	return func(yield func(key, value string) bool) {
		for key, rest := range b.members() {
			if !yield(key, valueOf(rest)) {
				return
			}
		}
	}
}

// String returns the pairs in W3C's form; "" if there are none.
func (b Baggage) String() string { return b.text }

// With returns b with the pair in place of one with its key. It fails if the key is no token of RFC
// 9110, the value is not UTF-8, or b would exceed [MaxBaggage] or [MaxBaggageMembers].
func (b Baggage) With(key, value string) (Baggage, error) {
	if !isToken(key) {
		return b, refusedBaggage("key %.40q: want letters, digits and signs such as - _ and .", key)
	}
	if len(value) > MaxBaggage || !utf8.ValidString(value) {
		return b, refusedBaggage("value of %.40q: want UTF-8 of at most %d bytes", key, MaxBaggage)
	}
	text := joined(b.Only(func(k string) bool { return k != key }).text, key+"="+escape(value))
	if len(text) > MaxBaggage || (Baggage{text}).Len() > MaxBaggageMembers {
		return b, refusedBaggage("with %.40q it has more than %d bytes or %d pairs", key, MaxBaggage, MaxBaggageMembers)
	}
	return Baggage{text}, nil
}

func refusedBaggage(format string, args ...any) error {
	return &Error{Code: InvalidArgument, Message: "baggage: " + fmt.Sprintf(format, args...), NotExecuted: true}
}

// escape writes a value as baggage-octets.
func escape(value string) string {
	var b strings.Builder
	for i := range len(value) {
		if c := value[i]; c == '%' || isNoBaggageOctet(rune(c)) {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// Only returns the pairs whose keys are wanted.
func (b Baggage) Only(wanted func(key string) bool) Baggage {
	for key := range b.members() {
		if !wanted(key) {
			return b.filter(wanted)
		}
	}
	return b
}

func (b Baggage) filter(wanted func(key string) bool) Baggage {
	text := ""
	for key, rest := range b.members() {
		if wanted(key) {
			text = joined(text, key+"="+rest)
		}
	}
	return Baggage{text}
}

type baggageKey struct{}

// ContextWithBaggage returns a context whose calls carry b, instead of the baggage of ctx.
func ContextWithBaggage(ctx context.Context, b Baggage) context.Context {
	return context.WithValue(ctx, baggageKey{}, b)
}

// BaggageFromContext returns the baggage of a context: of [ContextWithBaggage], or what a server
// has accepted with the call that the handler serves.
func BaggageFromContext(ctx context.Context) Baggage {
	b, _ := ctx.Value(baggageKey{}).(Baggage)
	return b
}

// WithBaggage returns a context whose calls carry the pair beside the baggage of ctx. It fails as
// [Baggage.With] does.
func WithBaggage(ctx context.Context, key, value string) (context.Context, error) {
	b, err := BaggageFromContext(ctx).With(key, value)
	if err != nil {
		return ctx, err
	}
	return ContextWithBaggage(ctx, b), nil
}
