package triple

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tandem-rpc/tandem"
)

// Fields of Triple's wrappers, which are Protocol Buffers messages: see Dubbo's
// triple_wrapper.proto.
const (
	requestSerialization protowire.Number = 1
	requestArgs          protowire.Number = 2 // field 3 has their types, which are ignored: the Go method determines the types

	responseSerialization protowire.Number = 1
	responseData          protowire.Number = 2
)

// hessian is the wrapper's name for Hessian 2.
const hessian = "hessian4"

// maxArgs is how many parameters a Java method can have.
const maxArgs = 255

// unwrapRequest returns the arguments, each encoded separately.
func unwrapRequest(b []byte) ([][]byte, error) {
	var args [][]byte
	serialization := ""
	for len(b) > 0 {
		n, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return nil, badWrapper(protowire.ParseError(size))
		}
		b = b[size:]
		if kind != protowire.BytesType || n != requestSerialization && n != requestArgs {
			if size = protowire.ConsumeFieldValue(n, kind, b); size < 0 {
				return nil, badWrapper(protowire.ParseError(size))
			}
			b = b[size:]
			continue
		}
		value, size := protowire.ConsumeBytes(b)
		if size < 0 {
			return nil, badWrapper(protowire.ParseError(size))
		}
		b = b[size:]
		if n == requestSerialization {
			serialization = string(value)
		} else if args = append(args, value); len(args) > maxArgs {
			return nil, badWrapper(errors.New("more arguments than a method of Java can have"))
		}
	}
	if serialization != hessian && serialization != "hessian2" {
		return nil, tandem.Errorf(tandem.Unimplemented, "serialization %.20q, want hessian2: the consumer can set it", serialization)
	}
	return args, nil
}

func badWrapper(err error) error {
	return tandem.Errorf(tandem.InvalidArgument, "not Triple's wrapper: %w", err)
}

// wrapperRoom is the size limit of a response without its result, in bytes.
const wrapperRoom = 2*len(hessian) + 8

// wrapResponse puts an encoded result into a response.
func wrapResponse(data []byte) []byte {
	b := make([]byte, 0, len(data)+wrapperRoom)
	b = protowire.AppendTag(b, responseSerialization, protowire.BytesType)
	b = protowire.AppendString(b, hessian)
	b = protowire.AppendTag(b, responseData, protowire.BytesType)
	return protowire.AppendBytes(b, data)
}
