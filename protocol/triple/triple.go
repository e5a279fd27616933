// Package triple serves consumers of Apache Dubbo 3 whose interfaces are plain Java,
// without Protocol Buffers: what Dubbo calls Triple's wrapper, with values in
// Hessian 2. Consumers whose messages are those of Protocol Buffers need package web
// alone.
//
//	srv := server.New(server.WithProtocols(web.New(triple.Interface("com.shop.Stock"))))
//	srv.RegisterName("com.shop.Stock", stock{})
//
// # Names
//
// The interface's methods are those of the service with its name; "find" calls Find,
// unless there is a "find". Several methods of one name in Java can't be told from each
// other here: the arguments must fit the one in Go.
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
// An int that has more than 32 bits goes out as a long; int64, uint32 and uint64 always
// do. Fields have the names of Java's, which the tag "hessian" gives, or else the name
// with a small first letter; "-" leaves one out. What a struct does not have is left
// out. A struct that goes out as a part of something else must be a [Class] for Java to
// know what it is. What comes in an interface{} is a bool, int32, int64, float64,
// string, []byte, time.Time, []any, map[string]any or nil.
//
// Objects that occur more than once in a request are one value if they are wanted as
// pointers. In responses every occurrence is one of its own, and what contains itself
// is an error. Values nest at most [codec.MaxDepth] deep. A result may have as many bytes
// as a message of the server ([server.WithMaxMessage]), or of the method if it takes
// larger ones.
//
// # Calls
//
// They are unary. Deadlines, metadata, trailers and gzip are as for gRPC; an error reaches
// the consumer as a StatusRpcException with its code and message. Exceptions of Java
// are not made.
package triple

import (
	"net/http"
	"strings"

	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

// Class is a type that has one in Java.
type Class interface {
	// JavaClassName returns the full name of the class, as com.shop.Item. It is called
	// on zero values too.
	JavaClassName() string
}

// Interface serves an interface of Java by its full name, as com.shop.Stock. Other
// requests for its path, as with JSON, are refused: give its methods to them under another
// name ([server.Server.Alias]).
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
	x := &exchange{conn: c, w: w, r: r, control: http.NewResponseController(w)}
	x.name = string(name) + "." + r.PathValue("method")
	if x.method = find(c, string(name), r.PathValue("method")); x.method != nil {
		x.name = x.method.Name
	}
	x.answer(x.call())
}

// find returns a method by its name in Java, nil if there is none.
func find(c *server.Conn, service, method string) *server.Method {
	if m := c.Method(service + "." + method); m != nil {
		return m
	}
	return c.Method(service + "." + upperFirst(method))
}
