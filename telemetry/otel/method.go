package otel

import (
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/tandem-rpc/tandem"
)

// The attributes of the conventions for how a call ended.
const (
	statusKey = "rpc.response.status_code"
	errorKey  = "error.type"
)

// The attributes of attempts, for which there are no conventions.
const (
	attemptKey  = "tandem.attempt"
	instanceKey = "tandem.instance"
)

const codesInAll = int(tandem.Unauthenticated) + 1

// method has the attributes of a method's spans and metrics, made once.
type method struct {
	name       string
	attempt    string // name of the spans of attempts
	attributes []attribute.KeyValue
	by         [codesInAll]metric.MeasurementOption
}

func newMethod(name string) *method {
	m := &method{name: name, attempt: "Attempt " + name, attributes: []attribute.KeyValue{
		attribute.String("rpc.system.name", "tandem"), attribute.String("rpc.method", name),
	}}
	for i := range m.by {
		code := codeName(tandem.Code(i))
		set := append([]attribute.KeyValue{attribute.String(statusKey, code)}, m.attributes...)
		if i != int(tandem.OK) {
			set = append(set, attribute.String(errorKey, code))
		}
		m.by[i] = metric.WithAttributeSet(attribute.NewSet(set...))
	}
	return m
}

// of returns the attributes of calls that ended with that code.
func (m *method) of(c tandem.Code) metric.MeasurementOption {
	if !c.Valid() {
		c = tandem.Unknown
	}
	return m.by[c]
}

// codeName returns the name of a code as the conventions write gRPC's, whose codes these are.
func codeName(c tandem.Code) string {
	if c == tandem.Canceled {
		return "CANCELLED"
	}
	return strings.ToUpper(strings.ReplaceAll(c.String(), " ", "_"))
}

// other stands for methods beyond mostMethods and for those that do not exist.
const other = "_OTHER"

// mostMethods bounds the methods that a client distinguishes, as the names may come from
// anywhere.
const mostMethods = 1024

// methods holds the methods that a client has called. The zero value is ready to use.
type methods struct {
	known sync.Map // string to *method
	count atomic.Int64
}

func (m *methods) of(name string) *method {
	if known, ok := m.known.Load(name); ok {
		return known.(*method) //nolint:forcetypeassert // nothing else is stored
	}
	if m.count.Add(1) > mostMethods || !utf8.ValidString(name) { // exporters refuse such names
		m.count.Add(-1)
		name = other
	}
	known, loaded := m.known.LoadOrStore(name, newMethod(name))
	if loaded && name != other { // another goroutine has counted it
		m.count.Add(-1)
	}
	return known.(*method) //nolint:forcetypeassert // nothing else is stored
}
