// Package yaml (experimental) reads policies that are written in YAML. A document means the same as its
// JSON does, and is checked as strictly:
//
//	version: "2026-11-21.3"
//	default: {timeout: 2s, failMode: failover}
//	methods:
//	  Orders.Get: {idempotent: true, failMode: backup}
//
//	client.WithPolicyFrom(yaml.Source(policy.File("policy.yaml")), "")
//
// It accepts the part of YAML that JSON has, with comments and YAML's ways to write strings and
// numbers. Anchors, merge keys and tags are refused, so that every value is written where it
// applies. It is a module of its own, as it needs a parser.
package yaml

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"

	"github.com/tandem-rpc/tandem/policy"
)

// Source returns src with documents in YAML: see [policy.Decoded].
func Source(src policy.Source) policy.Source { return policy.Decoded(src, JSON) }

// Parse reads a policy from YAML. It fails where [policy.Parse] fails.
func Parse(text []byte) (*policy.Policy, error) {
	text, err := JSON(text)
	if err != nil {
		return nil, err
	}
	return policy.Parse(text)
}

// maxDepth bounds the nesting of a document; a policy needs four levels.
const maxDepth = 32

// JSON turns a YAML document into JSON: the same fields, in the same order. It does not check
// their meaning.
func JSON(text []byte) ([]byte, error) {
	if len(text) > policy.MaxSize {
		return nil, fmt.Errorf("policy of %d bytes, limit %d", len(text), policy.MaxSize)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	if err := d.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the document is empty")
		}
		return nil, fmt.Errorf("policy: %w", err)
	}
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("policy: text after the end of the document")
	}
	var out bytes.Buffer
	for _, n := range doc.Content {
		if err := write(&out, n, maxDepth); err != nil {
			return nil, fmt.Errorf("policy: %w", err)
		}
	}
	return out.Bytes(), nil
}

// write appends a node as JSON.
func write(out *bytes.Buffer, n *yaml.Node, depth int) error {
	switch {
	case depth == 0:
		return at(n, errors.New("nested too deep"))
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		return at(n, errors.New("anchors and aliases are not taken: write it out"))
	case n.Style&yaml.TaggedStyle != 0:
		return at(n, fmt.Errorf("tag %.20q is not taken", n.Tag))
	case n.Kind == yaml.MappingNode:
		return writeObject(out, n, depth)
	case n.Kind == yaml.SequenceNode:
		return writeList(out, n, depth)
	}
	return at(n, writeScalar(out, n))
}

func writeObject(out *bytes.Buffer, n *yaml.Node, depth int) error {
	out.WriteByte('{')
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.Anchor != "" || key.ShortTag() != "!!str" {
			return at(key, fmt.Errorf("want the name of a field, not %.50q", key.Value))
		}
		if i > 0 {
			out.WriteByte(',')
		}
		if err := writeScalar(out, key); err != nil {
			return at(key, err)
		}
		out.WriteByte(':')
		if err := write(out, value, depth-1); err != nil {
			return err
		}
	}
	out.WriteByte('}')
	return nil
}

func writeList(out *bytes.Buffer, n *yaml.Node, depth int) error {
	out.WriteByte('[')
	for i, value := range n.Content {
		if i > 0 {
			out.WriteByte(',')
		}
		if err := write(out, value, depth-1); err != nil {
			return err
		}
	}
	out.WriteByte(']')
	return nil
}

// writeScalar appends a value that is neither an object nor a list. A value that looks like a
// date becomes a string, as it would be in JSON: a version, for example.
func writeScalar(out *bytes.Buffer, n *yaml.Node) error {
	var value any
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		value = n.Value
	case "!!null", "!!bool", "!!int", "!!float":
		if err := n.Decode(&value); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%.50q is not taken", n.Value)
	}
	text, err := json.Marshal(value)
	out.Write(text)
	return err
}

// at names the line in an error; nil stays nil.
func at(n *yaml.Node, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("line %d: %w", n.Line, err)
}
