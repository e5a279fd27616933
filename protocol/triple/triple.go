// Package triple (experimental) serves consumers of Apache Dubbo 3 whose interfaces are plain Java,
// without Protocol Buffers: Dubbo sends them in Triple's wrapper, with values in Hessian 2.
// Consumers whose messages are Protocol Buffers need only package web.
//
//	srv := server.New(server.WithProtocols(web.New(triple.Interface("com.shop.Stock"))))
//	srv.RegisterName("com.shop.Stock", stock{})
//
// # Names
//
// The interface's methods are those of the service with its name; "find" calls Find, unless
// the service has a method "find". Overloaded Java methods can't be distinguished here: the
// arguments must fit the Go method.
//
// # Values
//
//	boolean                      bool
//	byte, short, int             int8 to int32, and int; a number must fit
//	long                         int64
//	float, double                float64, float32
//	String                       string
//	byte[]                       []byte
//	java.util.Date               time.Time
//	lists, sets, arrays          slices
//	java.util.Map                maps
//	objects                      structs, or pointers to them
//	constants of an enum         strings; the other way if the type is a Class
//	BigDecimal, BigInteger       strings; this way only
//	null                         nil, or the zero value
//
// An int that needs more than 32 bits is sent as a long; int64, uint32 and uint64 always
// are. Fields have Java's names: the tag "hessian", or else the name with its first letter
// in lower case; "-" omits a field. Received fields that a struct does not have are
// ignored. A struct that is sent as a part of another value must be a [Class], which tells
// Java its class. A value received in an interface{} is a bool, int32, int64, float64,
// string, []byte, time.Time, []any, map[string]any or nil.
//
// An object that occurs more than once in a request is one value where it is decoded into
// pointers. In responses every occurrence is encoded separately, and a value that contains
// itself is an error. Values nest at most [codec.MaxDepth] deep. A result may be as large
// as a message of the server ([server.WithMaxMessage]), or of the method if that limit is
// larger.
//
// # Calls
//
// Calls are unary. Deadlines, metadata, trailers and gzip work as for gRPC; an error
// reaches the consumer as a StatusRpcException with its code and message. Java exceptions
// are not sent.
package triple

import (
	"net/http"
	"strings"

	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

// Class is a Go type that corresponds to a Java class.
type Class interface {
	// JavaClassName returns the full name of the class, such as com.shop.Item. It is also
	// called on zero values.
	JavaClassName() string
}

// Interface serves a Java interface by its full name, such as com.shop.Stock. Other
// requests for its path, for example with JSON, are refused: give its methods another name
// for them ([server.Server.Alias]).
func Interface(name string) web.Option {
	return web.WithHandler("POST /"+name+"/{method}", iface(name))
}

type iface string

// ServeHTTP makes one call.
func (name iface) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); kind != "application/grpc" && kind != "application/grpc+proto" {
		http.Error(w, "want application/grpc+proto, as Dubbo's consumers send it", http.StatusUnsupportedMediaType)
		return
	}
	c := web.Conn(r.Context())
	x := &exchange{conn: c, w: w, r: r, body: r.Body, control: http.NewResponseController(w)}
	x.name = string(name) + "." + r.PathValue("method")
	if x.method = find(c, string(name), r.PathValue("method")); x.method != nil {
		x.name = x.method.Name
	}
	x.answer(x.call())
}

// find returns a method by its Java name, nil if there is none.
func find(c *server.Conn, service, method string) *server.Method {
	if m := c.Method(service + "." + method); m != nil {
		return m
	}
	return c.Method(service + "." + upperFirst(method))
}
