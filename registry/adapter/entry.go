package adapter

import (
	"encoding/json"
	"fmt"

	"github.com/tandem-rpc/tandem"
)

// MaxEntry is the largest size of an instance as a registry stores it, in bytes.
const MaxEntry = 64 << 10

// Encode returns the instance as JSON, which is how registries store it unless
// they have a format of their own. It fails for an instance that is not valid or
// takes more than [MaxEntry].
func Encode(in tandem.Instance) ([]byte, error) {
	if err := in.Validate(); err != nil {
		return nil, err
	}
	data, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("instance %q: %w", in.ID, err)
	}
	if len(data) > MaxEntry {
		return nil, fmt.Errorf("instance %q takes %d bytes as JSON, limit %d; list fewer services, endpoints or tags", in.ID, len(data), MaxEntry)
	}
	return data, nil
}

// Decode parses the output of [Encode]. It ignores unknown fields, because later
// versions may write more fields. An instance returned without an error is valid.
func Decode(data []byte) (tandem.Instance, error) {
	var in tandem.Instance
	if len(data) > MaxEntry {
		return in, fmt.Errorf("entry of %d bytes, limit %d", len(data), MaxEntry)
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return tandem.Instance{}, err
	}
	return in, in.Validate()
}
