package main

import (
	"fmt"
	"time"
)

// holeCells returns cells that drop all packets of server 0, in both directions or in one.
func holeCells() []cell {
	const d = 55 * time.Second
	const drop = "counter drop"
	load := long(d + 8*time.Second)
	var cells []cell
	for _, hole := range []struct {
		name, packets string
		chains        map[string]string
	}{
		{"hole", "to and from", map[string]string{"input": drop, "output": drop}},
		{"requests", "to", map[string]string{"input": drop}},
		{"answers", "from", map[string]string{"output": drop}},
	} {
		fault := func(r *rig) error { return r.dropServer(0, hole.chains, d) }
		cells = append(cells, cell{
			Name: hole.name + "-3", Title: fmt.Sprintf("packets %s one of three servers are dropped for 55 s", hole.packets),
			Instances: 3, Load: load, At: 3 * time.Second, Fault: fault, Paired: true, MaxRounds: 1, Judge: movedOrWaited,
		}, cell{
			Name: hole.name + "-1", Title: fmt.Sprintf("packets %s the only server are dropped for 55 s", hole.packets),
			Instances: 1, Load: load, At: 3 * time.Second, Fault: fault, Paired: true, MaxRounds: 1, Judge: noneFailedEarly,
		})
	}
	return cells
}

// dropServer drops all packets in the given directions of a server for d.
func (r *rig) dropServer(i int, chains map[string]string, d time.Duration) error {
	host := r.net.servers[i]
	if err := r.net.filter(host, chains); err != nil {
		return err
	}
	r.wait(d)
	in, out, err := r.net.dropped(host)
	if err != nil {
		return err
	}
	for chain, p := range map[string]passage{"input": in, "output": out} {
		if _, holed := chains[chain]; holed && (p.dropped == 0 || p.dropped != p.seen) {
			err = fmt.Errorf("%d of %d packets of the %s of %s were dropped", p.dropped, p.seen, chain, host)
		}
	}
	r.provef("%d packets to the server dropped, %d from it", in.dropped, out.dropped)
	if err != nil {
		return err
	}
	return r.net.unfilter(host)
}
