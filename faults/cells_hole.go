package main

import (
	"fmt"
	"time"
)

// holeCells drop the packets of server 0.
func holeCells() []cell {
	const d = 55 * time.Second
	both := map[string]string{"input": "counter drop", "output": "counter drop"}
	answers := map[string]string{"output": "counter drop"}
	drop := func(chains map[string]string) func(*rig) error {
		return func(r *rig) error { return r.dropServer(0, chains, d) }
	}
	load := light(d+8*time.Second, longModes())
	return []cell{
		{
			Name: "hole-3", Title: "packets to and from one of three servers are dropped for 55 s",
			Instances: 3, Load: load, At: 3 * time.Second, Fault: drop(both), Judge: movedOrWaited,
		},
		{
			Name: "hole-1", Title: "packets to and from the only server are dropped for 55 s",
			Instances: 1, Load: load, At: 3 * time.Second, Fault: drop(both), Judge: noneFailedEarly,
		},
		{
			Name: "answers-3", Title: "packets from one of three servers are dropped for 55 s",
			Instances: 3, Load: load, At: 3 * time.Second, Fault: drop(answers), Judge: movedOrWaited,
		},
		{
			Name: "answers-1", Title: "packets from the only server are dropped for 55 s",
			Instances: 1, Load: load, At: 3 * time.Second, Fault: drop(answers), Judge: noneFailedEarly,
		},
	}
}

// dropServer drops packets of a server for d.
func (r *rig) dropServer(i int, chains map[string]string, d time.Duration) error {
	host := r.net.servers[i]
	if err := r.net.filter(host, chains); err != nil {
		return err
	}
	r.wait(d)
	dropped, err := r.net.unfilter(host)
	if err == nil && dropped == 0 {
		err = fmt.Errorf("no packet of %s was dropped", host)
	}
	r.provef("%d packets dropped", dropped)
	return err
}
