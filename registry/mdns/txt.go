package mdns

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

const (
	maxString = 255 // bytes of a string in a TXT record
	txtKey    = "json"
)

// encodeTXT returns the instance as strings of a TXT record: json0=…, json1=…, each with a
// part of its JSON. Backslashes are doubled, as package dns requires.
func encodeTXT(in tandem.Instance) ([]string, error) {
	data, err := adapter.Encode(in)
	if err != nil {
		return nil, err
	}
	var fields []string
	for len(data) > 0 {
		key := txtKey + strconv.Itoa(len(fields)) + "="
		n := min(maxString-len(key), len(data))
		fields = append(fields, key+strings.ReplaceAll(string(data[:n]), `\`, `\\`))
		data = data[n:]
	}
	return fields, nil
}

// decodeTXT is the inverse of encodeTXT. The strings may be in any order, and among other
// ones.
func decodeTXT(fields []string) (tandem.Instance, error) {
	parts := map[string][]byte{}
	for _, field := range fields {
		text, err := unescape(field)
		if err != nil {
			return tandem.Instance{}, err
		}
		if key, part, ok := bytes.Cut(text, []byte("=")); ok && bytes.HasPrefix(key, []byte(txtKey)) {
			parts[string(key)] = part
		}
	}
	var data []byte
	for i := 0; ; i++ {
		part, ok := parts[txtKey+strconv.Itoa(i)]
		if !ok {
			break
		}
		data = append(data, part...)
	}
	if data == nil {
		return tandem.Instance{}, errors.New("it has no string json0=… in its TXT record: another program's")
	}
	return adapter.Decode(data)
}

// unescape returns the bytes of a string that package dns has escaped: \" and \\, and \DDD
// for bytes that are not printable (RFC 1035, section 5.1).
func unescape(s string) ([]byte, error) {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			out = append(out, s[i])
			continue
		}
		if i+3 < len(s) && isDigit(s[i+1]) {
			n, err := strconv.ParseUint(s[i+1:i+4], 10, 8)
			if err != nil {
				return nil, fmt.Errorf("bad escape %q in its TXT record", s[i:i+4])
			}
			out = append(out, byte(n))
			i += 3
			continue
		}
		if i++; i == len(s) || isDigit(s[i]) {
			return nil, errors.New("an escape is cut off in its TXT record")
		}
		out = append(out, s[i])
	}
	return out, nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
