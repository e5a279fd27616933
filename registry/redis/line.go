package redis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// line is one connection that receives the announcements of many channels. It does not
// reconnect: when it fails, announcements may have been missed, so it fails for all its
// receivers, and their watches start again. It has two goroutines: one reads, one subscribes
// and pings.
type line struct {
	ps   *goredis.PubSub
	ctx  context.Context // ends with the line
	stop context.CancelFunc
	work chan struct{} // has a token when subscriptions are to be changed
	done chan struct{} // closed when the line has failed, or its last receiver is closed
	err  error         // why the line has ended; valid when done is closed
	wg   sync.WaitGroup

	mu        sync.Mutex
	topics    map[string]*topic
	receivers int
	over      bool
}

// topic is one channel of a line.
type topic struct {
	receivers  map[*receiver]struct{}
	subscribed bool          // a subscription was sent, and no unsubscription after it
	awaited    int           // number of subscriptions sent and not yet confirmed
	ready      chan struct{} // closed when the newest subscription is confirmed
}

// receiver gets the announcements of one channel, for one watch.
type receiver struct {
	line    *line
	channel string
	ready   <-chan struct{} // closed when the channel is subscribed
	news    chan struct{}   // has a token after an announcement
}

const (
	pingEvery = time.Second
	silence   = patience // without a message or a pong for this long, a line has failed
)

var errUnused = errors.New("the last watch has ended")

// newLine returns a line and its first receiver. The receiver is added before the line can
// fail, as a failed line accepts none.
func newLine(client goredis.UniversalClient, channel string) (*line, *receiver) {
	l := &line{work: make(chan struct{}, 1), done: make(chan struct{}), topics: map[string]*topic{}}
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.ps = client.Subscribe(l.ctx)
	first := l.add(channel)
	l.wg.Go(l.read)
	l.wg.Go(l.write)
	return l, first
}

// add returns a receiver for a channel, or nil if the line has ended.
func (l *line) add(channel string) *receiver {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return nil
	}
	t := l.topics[channel]
	if t == nil {
		t = &topic{receivers: map[*receiver]struct{}{}}
		l.topics[channel] = t
	}
	if !t.subscribed && len(t.receivers) == 0 {
		t.ready = make(chan struct{})
		l.wake()
	}
	s := &receiver{line: l, channel: channel, ready: t.ready, news: make(chan struct{}, 1)}
	t.receivers[s] = struct{}{}
	l.receivers++
	return s
}

// close closes the receiver. The last one to close ends the line.
func (s *receiver) close() {
	l := s.line
	l.mu.Lock()
	delete(l.topics[s.channel].receivers, s)
	l.receivers--
	last := l.receivers == 0
	l.over = l.over || last
	l.wake()
	l.mu.Unlock()
	if last {
		l.end(errUnused)
		l.wg.Wait()
	}
}

// wait waits for d, or until news has a token if it is not nil. It fails when the line
// fails or ctx ends.
func (s *receiver) wait(ctx context.Context, d time.Duration, news <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-news:
		return nil
	case <-s.line.done:
		return s.line.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *line) wake() {
	select {
	case l.work <- struct{}{}:
	default:
	}
}

// end ends the line with err. Only the first call has an effect.
func (l *line) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	select {
	case <-l.done:
		return
	default:
	}
	l.err = err
	close(l.done)
	l.stop()
}

// read dispatches the messages of the server.
func (l *line) read() {
	for {
		message, err := l.ps.ReceiveTimeout(l.ctx, silence)
		if err != nil {
			l.end(fmt.Errorf("listening to announcements: %w", err))
			return
		}
		switch m := message.(type) {
		case *goredis.Message:
			l.announce(m.Channel)
		case *goredis.Subscription:
			if m.Kind == "subscribe" {
				l.confirm(m.Channel)
			}
		}
	}
}

func (l *line) announce(channel string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.topics[channel]
	if t == nil {
		return
	}
	for s := range t.receivers {
		select {
		case s.news <- struct{}{}:
		default:
		}
	}
}

func (l *line) confirm(channel string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.topics[channel]
	if t == nil || t.awaited == 0 {
		return
	}
	t.awaited--
	if t.awaited == 0 && t.subscribed {
		close(t.ready)
	}
	l.forgetLocked(channel, t)
}

// forgetLocked removes a topic without receivers and subscription. l.mu is held.
func (l *line) forgetLocked(channel string, t *topic) {
	if len(t.receivers) == 0 && !t.subscribed && t.awaited == 0 {
		delete(l.topics, channel)
	}
}

// write changes subscriptions and pings, until the line ends; then it closes the
// connection, which ends read.
func (l *line) write() {
	defer l.ps.Close() //nolint:errcheck // the connection is not used any more
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	for {
		var err error
		select {
		case <-l.work:
			err = l.subscribe()
		case <-ping.C:
			err = l.ps.Ping(l.ctx)
		case <-l.done:
			return
		}
		if err != nil {
			l.end(fmt.Errorf("listening to announcements: %w", err))
		}
	}
}

// subscribe subscribes to the channels that have got receivers, and unsubscribes from those
// that have none any more.
func (l *line) subscribe() error {
	joined, left := l.changes()
	var err error
	if len(joined) > 0 {
		err = l.ps.Subscribe(l.ctx, joined...)
	}
	if len(left) > 0 && err == nil {
		err = l.ps.Unsubscribe(l.ctx, left...)
	}
	return err
}

// changes returns the channels to subscribe to and those to unsubscribe from, and marks
// them so.
func (l *line) changes() (joined, left []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for channel, t := range l.topics {
		switch {
		case len(t.receivers) > 0 && !t.subscribed:
			t.subscribed = true
			t.awaited++
			joined = append(joined, channel)
		case len(t.receivers) == 0 && t.subscribed:
			t.subscribed = false
			left = append(left, channel)
		}
		l.forgetLocked(channel, t)
	}
	return joined, left
}
