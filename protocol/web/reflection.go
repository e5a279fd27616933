package web

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/server"
)

// RegisterReflection registers gRPC's reflection, versions 1 and 1alpha
// (https://github.com/grpc/grpc/blob/master/doc/server-reflection.md), with which tools
// such as grpcurl find out what a server has. It lists services that are registered under
// the full name of a Protocol Buffers service whose generated code is linked into the
// program, and describes every linked definition, so it reveals much to any caller. Its
// methods pass interceptors and limits like all others.
func RegisterReflection(srv *server.Server) error {
	r := &reflector{srv: srv, own: healthFiles()}
	return errors.Join(
		server.HandleStream(srv, "grpc.reflection.v1.ServerReflection.ServerReflectionInfo", r.serve),
		server.HandleStream(srv, "grpc.reflection.v1alpha.ServerReflection.ServerReflectionInfo", r.serve))
}

type reflector struct {
	srv *server.Server
	own *protoregistry.Files // definitions of this package without generated code
}

// serve answers one question after the other. It sends each file once per stream.
func (r *reflector) serve(_ context.Context, stream *tandem.Stream[question, reflected]) error {
	sent := map[string]bool{}
	for {
		q, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := stream.Send(r.answer(q, sent)); err != nil {
			return err
		}
	}
}

func (r *reflector) answer(q *question, sent map[string]bool) *reflected {
	a := &reflected{to: q}
	var file protoreflect.FileDescriptor
	var err error
	switch q.kind {
	case askFile:
		file, err = r.file(q.text)
	case askSymbol:
		file, err = r.symbol(q.text)
	case askExtension:
		file, err = extension(q.text, q.number)
	case askExtensions:
		a.number, a.content, err = extensions(q.text)
		return a.orError(err)
	case askServices:
		a.number, a.content = 6, r.services()
		return a
	default:
		return a.orError(tandem.Errorf(tandem.InvalidArgument, "a question of no known kind"))
	}
	if err == nil {
		a.number = 4
		a.content, err = filesOf(nil, file, sent)
	}
	return a.orError(err)
}

func (r *reflector) file(path string) (protoreflect.FileDescriptor, error) {
	if f, err := r.own.FindFileByPath(path); err == nil {
		return f, nil
	}
	return protoregistry.GlobalFiles.FindFileByPath(path)
}

func (r *reflector) symbol(name string) (protoreflect.FileDescriptor, error) {
	d, err := r.own.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		d, err = protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	}
	if err != nil {
		return nil, err
	}
	return d.ParentFile(), nil
}

func extension(of string, number uint64) (protoreflect.FileDescriptor, error) {
	t, err := protoregistry.GlobalTypes.FindExtensionByNumber(protoreflect.FullName(of), protowire.Number(min(number, 1<<29)))
	if err != nil {
		return nil, err
	}
	return t.TypeDescriptor().ParentFile(), nil
}

// extensions returns the numbers of all extensions of a message.
func extensions(of string) (number protowire.Number, content []byte, err error) {
	name := protoreflect.FullName(of)
	if _, err := protoregistry.GlobalTypes.FindMessageByName(name); err != nil {
		return 0, nil, err
	}
	content = appendText(nil, 1, of)
	protoregistry.GlobalTypes.RangeExtensionsByMessage(name, func(t protoreflect.ExtensionType) bool {
		content = appendNumber(content, 2, uint64(t.TypeDescriptor().Number())) //nolint:gosec // positive
		return true
	})
	return 5, content, nil
}

// services returns the encoded names of the services that tools can call.
func (r *reflector) services() []byte {
	var names []string
	for _, m := range r.srv.Methods() {
		dot := max(0, strings.LastIndexByte(m, '.'))
		if name := m[:dot]; !slices.Contains(names, name) && r.known(name) {
			names = append(names, name)
		}
	}
	var content []byte
	for _, name := range names {
		content = appendBytes(content, 1, appendText(nil, 1, name))
	}
	return content
}

// known reports whether name is a linked service, or reflection itself, which tools know.
func (r *reflector) known(name string) bool {
	full := protoreflect.FullName(name)
	for _, files := range []*protoregistry.Files{r.own, protoregistry.GlobalFiles} {
		d, err := files.FindDescriptorByName(full)
		if _, ok := d.(protoreflect.ServiceDescriptor); ok && err == nil {
			return true
		}
	}
	return strings.HasPrefix(name, "grpc.reflection.")
}

// filesOf appends a file and the files that it imports, unless they were sent.
func filesOf(dst []byte, f protoreflect.FileDescriptor, sent map[string]bool) ([]byte, error) {
	if sent[f.Path()] || f.IsPlaceholder() {
		return dst, nil
	}
	sent[f.Path()] = true
	b, err := proto.Marshal(protodesc.ToFileDescriptorProto(f))
	if err != nil {
		return nil, err
	}
	dst = appendBytes(dst, 1, b)
	for i := range f.Imports().Len() {
		if dst, err = filesOf(dst, f.Imports().Get(i).FileDescriptor, sent); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

// The kinds of questions, which are their field numbers.
const (
	askFile       protowire.Number = 3
	askSymbol     protowire.Number = 4
	askExtension  protowire.Number = 5
	askExtensions protowire.Number = 6
	askServices   protowire.Number = 7
)

// question is grpc.reflection.v1.ServerReflectionRequest.
type question struct {
	raw    []byte
	kind   protowire.Number
	text   string
	number uint64
}

// MarshalVT encodes it as Protocol Buffers.
func (q *question) MarshalVT() ([]byte, error) { return q.raw, nil }

// UnmarshalVT decodes it.
func (q *question) UnmarshalVT(b []byte) error {
	*q = question{raw: bytes.Clone(b)}
	var inner error
	err := fields(b, func(number protowire.Number, f field) {
		switch {
		case number == askExtension:
			q.kind = number
			inner = fields(f.bytes, func(n protowire.Number, f field) {
				q.text = f.textOf(n, 1, q.text)
				if n == 2 {
					q.number = f.number
				}
			})
		case number >= askFile && number <= askServices:
			q.kind, q.text = number, string(f.bytes)
		}
	})
	return errors.Join(err, inner)
}

// reflected is grpc.reflection.v1.ServerReflectionResponse.
type reflected struct {
	to      *question
	number  protowire.Number // number of the response's field
	content []byte
}

// orError returns a, or a response with err if it is not nil.
func (a *reflected) orError(err error) *reflected {
	if err == nil {
		return a
	}
	e := tandem.AsError(err)
	if errors.Is(err, protoregistry.NotFound) {
		e = tandem.Errorf(tandem.NotFound, "not found: %.200q", a.to.text)
	}
	return &reflected{to: a.to, number: 7, content: appendText(appendNumber(nil, 1, uint64(e.Code)), 2, e.Message)}
}

// MarshalVT encodes it as Protocol Buffers.
func (a *reflected) MarshalVT() ([]byte, error) {
	b := appendBytes(nil, 2, a.to.raw)
	return appendBytes(b, a.number, a.content), nil
}

// UnmarshalVT only completes the interface that codecs need: a server receives no
// responses.
func (*reflected) UnmarshalVT([]byte) error { return errors.New("an answer is only sent") }
