package main

import (
	"context"
	"time"

	"google.golang.org/grpc/interop/grpc_testing"
)

// Kinds has fields of many kinds, for suites that generate valid and invalid values for a
// schema. It has neither bytes nor arrays, as encoding/json accepts more for them than the
// schema says: a list of numbers, and elements beyond the last.
type Kinds struct {
	Flag    bool              `json:"flag"`
	Small   int8              `json:"small"`
	Large   uint64            `json:"large"`
	Half    float32           `json:"half"`
	Whole   float64           `json:"whole"`
	Text    string            `json:"text"`
	When    time.Time         `json:"when"`
	List    []string          `json:"list"`
	Numbers []int16           `json:"numbers"`
	Map     map[string]int32  `json:"map"`
	Inner   *Kinds            `json:"inner,omitempty"`
	Many    []Kinds           `json:"many,omitempty"`
	Named   map[string]*Kinds `json:"named,omitempty"`
	Maybe   *int              `json:"maybe"`
}

type kinds struct{}

// Echo returns its argument.
func (kinds) Echo(_ context.Context, k *Kinds) (*Kinds, error) { return k, nil }

// Count takes a list.
func (kinds) Count(all []Kinds) int { return len(all) }

// Split has several arguments and results.
func (kinds) Split(text string, at uint8, flags map[string]bool) (before, after string, n int) {
	i := min(int(at), len(text))
	return text[:i], text[i:], len(flags)
}

// Message returns its argument, a message of Protocol Buffers with messages, enums and a map.
func (kinds) Message(m *grpc_testing.SimpleRequest) *grpc_testing.SimpleRequest { return m }

// Lists returns its argument, a message with lists.
func (kinds) Lists(m *grpc_testing.ClientConfigureRequest) *grpc_testing.ClientConfigureRequest {
	return m
}

// Maps returns its argument, a message with maps of messages.
func (kinds) Maps(m *grpc_testing.LoadBalancerAccumulatedStatsResponse) *grpc_testing.LoadBalancerAccumulatedStatsResponse {
	return m
}

// Nothing has neither arguments nor results.
func (kinds) Nothing() {}
