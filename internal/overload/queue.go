package overload

import "slices"

// queue holds the requests of one method and class, fair between callers: the next request is
// that of the caller that has begun the fewest since the callers that wait began to wait
// (start-time fair queueing, Goyal, Vin and Cheng 1996, with all requests of a method alike).
// Requests of one caller keep their order.
type queue struct {
	calls int
	clock int64   // tag of the request taken last
	list  []*line // lines of the callers with requests, the next one first: a binary heap
	lines map[uint64]*line
}

// line holds the requests of a caller.
type line struct {
	caller uint64
	tag    int64
	list   []*Request
}

func (q *queue) add(r *Request) {
	l := q.lines[r.Caller]
	if l == nil {
		if q.lines == nil {
			q.lines = map[uint64]*line{}
		}
		l = &line{caller: r.Caller, tag: q.clock}
		q.lines[r.Caller] = l
		q.list = append(q.list, l)
		q.up(len(q.list) - 1)
	}
	l.list = append(l.list, r)
	q.calls++
}

// take removes and returns the next request. There must be one.
func (q *queue) take() *Request {
	l := q.list[0]
	r := l.list[0]
	l.list[0] = nil
	l.list = l.list[1:]
	q.calls--
	q.clock = l.tag
	l.tag++
	if len(l.list) == 0 {
		q.drop(0)
	} else {
		q.down(0)
	}
	return r
}

// remove removes a request, and reports whether it was there.
func (q *queue) remove(r *Request) bool {
	l := q.lines[r.Caller]
	if l == nil {
		return false
	}
	i := slices.Index(l.list, r)
	if i < 0 {
		return false
	}
	l.list = slices.Delete(l.list, i, i+1)
	q.calls--
	if len(l.list) == 0 {
		q.drop(slices.Index(q.list, l))
	}
	return true
}

// drop removes an empty line.
func (q *queue) drop(i int) {
	delete(q.lines, q.list[i].caller)
	last := len(q.list) - 1
	q.list[i] = q.list[last]
	q.list[last] = nil
	q.list = q.list[:last]
	if i < last {
		q.down(i)
		q.up(i)
	}
}

func (q *queue) up(i int) {
	for i > 0 {
		above := (i - 1) / 2
		if q.list[above].tag <= q.list[i].tag {
			return
		}
		q.list[above], q.list[i] = q.list[i], q.list[above]
		i = above
	}
}

func (q *queue) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(q.list); child++ {
			if q.list[child].tag < q.list[least].tag {
				least = child
			}
		}
		if least == i {
			return
		}
		q.list[i], q.list[least] = q.list[least], q.list[i]
		i = least
	}
}

// ahead returns how many requests of the queue are served before another one of the caller.
func (q *queue) ahead(caller uint64) int {
	own := 0
	if l := q.lines[caller]; l != nil {
		own = len(l.list)
	}
	return min(q.calls, own*max(1, len(q.list))+len(q.list))
}
