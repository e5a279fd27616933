package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// crowdCells returns cells with very many connections or calls.
func crowdCells(soak time.Duration) []cell {
	honest := light(20*time.Second, []string{variantDefault, variantFresh})
	honest.Rate = 60
	cancels := light(25*time.Second, []string{variantCancel, variantCancel, variantCancel, variantCancel, variantDefault})
	cancels.Rate, cancels.Work = 5000, 5*time.Millisecond
	steady := light(soak, []string{variantDefault})
	steady.Rate, steady.Work, steady.Size = min(1000, 1e6/soak.Seconds()), time.Millisecond, 4096
	return []cell{
		{
			Name: "silent-10k", Title: "10,000 connections that send nothing, in parallel with calls and new connections", Short: true, Alone: true,
			Instances: 1, Load: honest, At: 2 * time.Second, Fault: crowd(10_000, 10*time.Second, 0), Judge: undisturbed,
		},
		{
			Name: "drip-10k", Title: "10,000 connections that send a byte a second, in parallel with calls and new connections", Alone: true,
			Instances: 1, Load: honest, At: 2 * time.Second, Fault: crowd(10_000, 10*time.Second, time.Second), Judge: undisturbed,
		},
		{
			Name: "files", Title: "a server that may open 64 files gets 200 connections; calls on existing connections go on, and new clients can connect later", Short: true,
			Instances: 1, Files: 64, Load: light(12*time.Second, nil), At: 2 * time.Second, Fault: exhaustFiles, Proof: freshClient, Judge: noneFailed,
		},
		{
			Name: "cancels", Title: "callers cancel 100,000 calls after 1 ms each, in parallel with 1,000 other calls a second", Alone: true,
			Instances: 1, Usage: true, Load: cancels, Judge: cancelled,
		},
		{
			Name: "memory", Title: fmt.Sprintf("%.0f calls a second for %v leak no memory and no goroutines", steady.Rate, soak), Alone: true,
			Instances: 1, Usage: true, Load: steady, Judge: noLeak,
		},
	}
}

// cancelled is the bar that cancelled calls reach the server and return within 1 s, that no
// other call fails, and that nothing leaks.
func cancelled(o *outcome) []check {
	checks := noLeak(o)
	for _, a := range o.tandems() {
		given, ran, slow := 0, 0, 0
		for _, e := range a.entries {
			if notCanceled(e) {
				continue
			}
			given++
			ran += min(1, len(a.ran[e.ID]))
			if e.took() > time.Second {
				slow++
			}
		}
		others := a.summary(notCanceled)
		checks = append(checks,
			atLeast(a.String()+": cancelled calls", given, 90_000),
			atLeast(a.String()+": cancelled calls that reached the server", ran, given/10),
			atMost(a.String()+": cancelled calls that returned after more than 1 s", slow, 0),
			atLeast(a.String()+": other calls", others.Made, 20_000))
	}
	return checks
}

// crowd returns a fault: a process opens n connections to server 0 and holds them for d. It
// sends a byte on each of them every pause, or nothing if pause is 0.
func crowd(n int, d, pause time.Duration) func(*rig) error {
	return func(r *rig) error {
		log := filepath.Join(r.dir, "crowd.log")
		p, err := r.startProcess(r.net.client, log, 0, roleCrowd, serverAddr(0)+":9000", strconv.Itoa(n), d.String(), pause.String())
		if err != nil {
			return err
		}
		defer p.kill()
		line, err := bufio.NewReader(p.out).ReadString('\n')
		if err != nil {
			return err
		}
		r.provef("%s", strings.TrimSpace(line))
		var opened int
		if _, err := fmt.Sscan(line, &opened); err != nil {
			return err
		}
		if opened < n*9/10 {
			return fmt.Errorf("only %d of %d connections were opened", opened, n)
		}
		return nil
	}
}

// exhaustFiles opens more connections than server 0 may have open files.
func exhaustFiles(r *rig) error {
	const hold = 5 * time.Second
	ctx, cancel := context.WithCancel(r.ctx)
	most := make(chan int, 1)
	go func() {
		n := 0
		for ctx.Err() == nil {
			files, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", r.servers[0].cmd.Process.Pid)) // on an error: no proof
			n = max(n, len(files))
			r.wait(5 * time.Millisecond)
		}
		most <- n
	}()
	err := crowd(200, hold, 0)(r)
	cancel()
	n := <-most
	r.provef("the server had %d of %d files open", n, r.cell.Files)
	if err == nil && n < r.cell.Files-1 {
		err = fmt.Errorf("the server had only %d of %d files open", n, r.cell.Files)
	}
	return err
}

// crowdRole opens connections. Its arguments are ADDRESS COUNT HOLD PAUSE. At the end it
// writes how many connections it opened and how many of them the server closed.
func crowdRole(args []string, out io.Writer) error {
	if len(args) != 4 {
		return fmt.Errorf("%s: arguments %q: want an address, a count and two durations", roleCrowd, args)
	}
	n, err1 := strconv.Atoi(args[1])
	hold, err2 := time.ParseDuration(args[2])
	pause, err3 := time.ParseDuration(args[3])
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), hold)
	defer cancel()
	var opened, closed atomic.Int64
	var members sync.WaitGroup
	turns := make(chan struct{}, 256) // limits the dials in flight
	for range n {
		members.Go(func() {
			turns <- struct{}{}
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", args[0])
			<-turns
			if err != nil {
				return
			}
			opened.Add(1)
			if !holdConn(ctx, c, pause) {
				closed.Add(1)
			}
		})
	}
	members.Wait()
	_, err := fmt.Fprintf(out, "%d connections opened, %d closed by the server\n", opened.Load(), closed.Load())
	return err
}

// holdConn keeps c open until ctx ends. It returns false if the server closes c before that.
func holdConn(ctx context.Context, c net.Conn, pause time.Duration) (held bool) {
	defer func() { _ = c.Close() }() // no data to lose
	if pause > 0 {
		for ctx.Err() == nil {
			if _, err := c.Write([]byte{'P'}); err != nil {
				return false
			}
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
		return true
	}
	deadline, _ := ctx.Deadline()
	_ = c.SetReadDeadline(deadline) // without it, Read waits until the server closes
	_, err := c.Read(make([]byte, 1))
	return errors.Is(err, context.DeadlineExceeded) || isTimeout(err)
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// undisturbed is the bar that no call fails, with or without a new connection, and that the
// p99 of calls with a new connection is at most 500 ms.
func undisturbed(o *outcome) []check {
	checks := noneFailed(o)
	for _, a := range o.tandems() {
		fresh := a.summary(func(e entry) bool { return e.Variant == variantFresh })
		checks = append(checks, notLonger(a.String()+": p99 of calls with a new connection", fresh.P99, 500*time.Millisecond, 1))
	}
	return checks
}
