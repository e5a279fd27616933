package tandem

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
	"unicode/utf8"
)

// Endpoint is one way to reach an instance.
type Endpoint struct {
	Transport string `json:"transport"`          // name of a [Transport]: "tcp", "unix", …
	Address   string `json:"address"`            // as the transport understands it
	Protocol  string `json:"protocol,omitempty"` // "" means tandem's own
}

// String returns the endpoint as a target: transport://address.
func (e Endpoint) String() string { return e.Transport + "://" + e.Address }

// Instance is one running server of a service, as a registry knows it.
type Instance struct {
	ID        string            `json:"id"` // unique among the instances of a service
	Endpoints []Endpoint        `json:"endpoints"`
	Services  []string          `json:"services,omitempty"` // names of the services it offers; empty means all
	Weight    int               `json:"weight,omitempty"`   // relative share of calls; 0 means 100
	Version   string            `json:"version,omitempty"`
	Zone      string            `json:"zone,omitempty"`
	Group     string            `json:"group,omitempty"`
	Tags      map[string]string `json:"tags,omitempty"`
	Started   time.Time         `json:"started,omitzero"`
	// Incarnation differs for every start of a server under the same ID. The one
	// with the later Started counts.
	Incarnation string    `json:"incarnation,omitempty"`
	Position    *Position `json:"position,omitempty"` // nil: unknown
	Load        *Load     `json:"load,omitempty"`     // nil: never reported
}

// Position is a place on earth.
type Position struct {
	Latitude  float64 `json:"latitude"`  // degrees, north is positive
	Longitude float64 `json:"longitude"` // degrees, east is positive
}

// Load is what an instance last reported to its registry about itself. It is as
// old as the server's reporting interval says, a minute by default.
type Load struct {
	At       time.Time `json:"at"`
	Rate     float64   `json:"rate"`     // calls a second since the report before
	InFlight int       `json:"inFlight"` // calls running
	Queued   int       `json:"queued,omitempty"`
}

// Limits of a valid instance. Data of a registry is not trusted.
const (
	MaxInstanceID   = 512    // bytes
	MaxWeight       = 10_000 // largest weight
	DefaultWeight   = 100    // weight of an instance that names none
	maxEndpoints    = 16
	maxTags         = 128
	maxInstanceText = 1024
)

// Validate returns an error that names the first field that can't be right.
func (in *Instance) Validate() error {
	switch {
	case in.ID == "":
		return errors.New("instance has no id")
	case !utf8.ValidString(in.ID):
		return fmt.Errorf("instance id %q is not UTF-8", in.ID)
	case len(in.ID) > MaxInstanceID:
		return fmt.Errorf("instance id of %d bytes, limit %d", len(in.ID), MaxInstanceID)
	case len(in.Endpoints) == 0:
		return fmt.Errorf("instance %q has no endpoint", in.ID)
	case len(in.Endpoints) > maxEndpoints:
		return fmt.Errorf("instance %q has %d endpoints, limit %d", in.ID, len(in.Endpoints), maxEndpoints)
	case in.Weight < 0 || in.Weight > MaxWeight:
		return fmt.Errorf("instance %q has weight %d, allowed 0 to %d", in.ID, in.Weight, MaxWeight)
	case len(in.Tags) > maxTags:
		return fmt.Errorf("instance %q has %d tags, limit %d", in.ID, len(in.Tags), maxTags)
	case in.Position != nil && !in.Position.valid():
		return fmt.Errorf("instance %q is nowhere on earth: latitude %v, longitude %v", in.ID, in.Position.Latitude, in.Position.Longitude)
	}
	for _, ep := range in.Endpoints {
		if ep.Transport == "" || ep.Address == "" || len(ep.Transport)+len(ep.Address)+len(ep.Protocol) > maxInstanceText {
			return fmt.Errorf("instance %q has a bad endpoint %.100q", in.ID, ep)
		}
	}
	return nil
}

// Clone returns a copy that shares no memory with the instance.
func (in *Instance) Clone() Instance {
	c := *in
	c.Endpoints = slices.Clone(in.Endpoints)
	c.Services = slices.Clone(in.Services)
	c.Tags = maps.Clone(in.Tags)
	if in.Position != nil {
		c.Position = new(*in.Position)
	}
	if in.Load != nil {
		c.Load = new(*in.Load)
	}
	return c
}

// valid is false for NaN, too.
func (p *Position) valid() bool {
	return math.Abs(p.Latitude) <= 90 && math.Abs(p.Longitude) <= 180
}
