package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"github.com/florianl/go-nfqueue/v2"
)

// packetQueue delays every packet of one direction in an NFQUEUE, so the kernel's own
// retransmission must handle the delay.
type packetQueue struct {
	nf      *nfqueue.Nfqueue
	cancel  context.CancelFunc
	inOrder chan heldPacket
	held    atomic.Int64
}

type heldPacket struct {
	id  uint32
	due time.Time
}

// openPacketQueue starts to delay the packets of host's NFQUEUE num as l says.
func openPacketQueue(host string, num uint16, l link) (*packetQueue, error) {
	ns, err := os.Open("/run/netns/" + host)
	if err != nil {
		return nil, err
	}
	defer func() { _ = ns.Close() }() // read only
	nf, err := nfqueue.Open(&nfqueue.Config{
		NetNS: int(ns.Fd()), NfQueue: num, MaxQueueLen: 1 << 16, MaxPacketLen: 128,
		Copymode: nfqueue.NfQnlCopyMeta, WriteTimeout: time.Second,
	})
	if err != nil {
		return nil, fmt.Errorf("NFQUEUE %d of %s: %w", num, host, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	q := &packetQueue{nf: nf, cancel: cancel, inOrder: make(chan heldPacket, 1<<16)}
	go q.release(ctx)
	hook := func(a nfqueue.Attribute) int {
		q.held.Add(1)
		q.hold(ctx, *a.PacketID, l)
		return 0
	}
	if err := nf.RegisterWithErrorFunc(ctx, hook, func(error) int { return 0 }); err != nil {
		cancel()
		return nil, fmt.Errorf("NFQUEUE %d of %s: %w", num, host, err)
	}
	return q, nil
}

// hold lets a packet pass after its delay. Without jitter the packets stay in order.
func (q *packetQueue) hold(ctx context.Context, id uint32, l link) {
	if l.Jitter > 0 {
		d := l.Delay + rand.N(l.Jitter)                                         //nolint:gosec // no secret
		time.AfterFunc(d, func() { _ = q.nf.SetVerdict(id, nfqueue.NfAccept) }) // the queue may be closed
		return
	}
	select {
	case q.inOrder <- heldPacket{id, time.Now().Add(l.Delay)}:
	case <-ctx.Done():
	}
}

func (q *packetQueue) release(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case p := <-q.inOrder:
			time.Sleep(time.Until(p.due))
			_ = q.nf.SetVerdict(p.id, nfqueue.NfAccept) // the queue may be closed
		}
	}
}

func (q *packetQueue) close() {
	q.cancel()
	_ = q.nf.Close() // packets still held are dropped when their namespace is removed
}
