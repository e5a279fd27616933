package zookeeper

import (
	"fmt"
	"strings"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

// layout is how instances are written into nodes.
type layout interface {
	// below returns what is appended to the target's path to make the directory's.
	below() string
	// node returns the name and the data of the node of an instance.
	node(in tandem.Instance) (name string, data []byte, err error)
	// parse is the reverse of node. An instance that it returns without an error is valid.
	parse(name string, data []byte) (tandem.Instance, error)
	// named reports whether a node's name holds the whole instance, so that its data
	// need not be read.
	named() bool
}

// tandemLayout is tandem's own layout: JSON in nodes that are named by the ID.
type tandemLayout struct{}

func (tandemLayout) below() string { return "" }

func (tandemLayout) named() bool { return false }

func (tandemLayout) node(in tandem.Instance) (string, []byte, error) {
	data, err := adapter.Encode(in)
	return escape(in.ID), data, err
}

func (tandemLayout) parse(name string, data []byte) (tandem.Instance, error) {
	in, err := adapter.Decode(data)
	if err != nil {
		return in, err
	}
	if want := escape(in.ID); want != name {
		return in, fmt.Errorf("instance %q belongs into the node %s", in.ID, want)
	}
	return in, nil
}

// escape returns the name of the node for an ID: ASCII letters, digits and
// -_~:@,+=[] stand for themselves, and so do dots that don't come first; other
// bytes are %xx. No two IDs have the same name, and ZooKeeper accepts every name.
func escape(id string) string {
	var b strings.Builder
	for i := range len(id) {
		c := id[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9',
			strings.IndexByte("-_~:@,+=[]", c) >= 0, c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02x", c)
		}
	}
	return b.String()
}
