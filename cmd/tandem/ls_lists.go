package main

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem/cmd/tandem/internal/listing"
	"github.com/tandem-rpc/tandem/registry"
)

// countsAtATime is how many lists are read at a time to count their instances.
const countsAtATime = 8

// directoryList is what tandem ls --lists prints. Its fields are documented in docs/reference/cli.md.
type directoryList struct {
	Target string       `json:"target"`
	At     time.Time    `json:"at"`
	Lists  []listedList `json:"lists"`
}

// listedList is a list of a directory.
type listedList struct {
	Target    string `json:"target"`
	Instances int    `json:"instances"`
	Error     string `json:"error,omitempty"` // why the list can't be read
}

// printLists prints the lists at a place and below it, with the numbers of their instances.
func printLists(ctx context.Context, p *listing.Printer, at *place) error {
	r, t, err := at.list()
	if err != nil {
		return err
	}
	d, ok := r.(registry.Directory)
	if !ok {
		return usagef("--lists: %s:// has no directory of lists", t.Scheme)
	}
	within, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	found, err := d.Lists(within, t)
	if err != nil {
		return interrupted(ctx, err)
	}
	lists := countInstances(ctx, r, found)
	if ctx.Err() != nil {
		return interrupted(ctx, ctx.Err())
	}
	value := directoryList{Target: registry.Redact(at.target), At: time.Now().UTC().Truncate(time.Millisecond), Lists: lists}
	table := &listing.List{Columns: []listing.Column{{Name: "LIST"}, {Name: "INSTANCES"}}, Value: value}
	for _, l := range lists {
		count := strconv.Itoa(l.Instances)
		if l.Error != "" {
			count = l.Error
		}
		table.Rows = append(table.Rows, []string{l.Target, count})
	}
	return p.Print(table)
}

// countInstances reads the lists.
func countInstances(ctx context.Context, r registry.Resolver, targets []registry.Target) []listedList {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	lists := make([]listedList, len(targets))
	var wg sync.WaitGroup
	tokens := make(chan struct{}, countsAtATime)
	for i, t := range targets {
		tokens <- struct{}{}
		wg.Go(func() {
			defer func() { <-tokens }()
			lists[i].Target = t.Redacted()
			instances, err := registry.List(ctx, r, t)
			if err != nil {
				lists[i].Error = err.Error()
			}
			lists[i].Instances = len(instances)
		})
	}
	wg.Wait()
	return lists
}

// noteEmpty returns what to print below an empty list, if its registry may have others.
func noteEmpty(r registry.Resolver, instances int) []string {
	if _, ok := r.(registry.Directory); !ok || instances > 0 {
		return nil
	}
	return []string{"no instance is listed here; tandem ls --lists shows the lists at a target and below it"}
}
