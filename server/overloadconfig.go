package server

import "time"

// OverloadConfig are the constants of overload control, for [WithOverloadControl]. A field that is
// zero has its default. docs/explanation/overload.md says what the server does with them.
type OverloadConfig struct {
	// Queue.
	Calls  int     // requests that may wait
	OneWay int     // one-way requests among those: their callers do not wait, so nothing else bounds them
	Bytes  int64   // bytes that waiting requests may take
	Slack  float64 // share of a request's spare time, which is the time until its deadline less its handler's time, that it may wait
	Margin float64 // expected time of a handler, in multiples of its median

	// Averages that the forecast and the slots use.
	TimeoutGain float64 // weight of one request in the usual timeout
	GapGain     float64 // weight of one gap in the usual gap between two starts of a method
	LongestGap  float64 // a longer gap counts as this many usual gaps

	// Slots.
	Processors int     // least number of slots
	Busy       float64 // with more waiting goroutines per processor than this, the slots become fewer; below 0: always
	Idle       float64 // with fewer waiting goroutines per processor than this, the slots become more
	Engage     float64 // share of the usual timeout that a goroutine must wait for a processor, or a request to be read, before slots apply; below 0: at once
	Fewer      float64 // factor of the slots after a busy sample
	More       float64 // factor of the slots after an idle sample
	CalmAfter  int     // samples in a row in which the slots limit nothing, after which they are lifted

	// Streams.
	Streams int // streams that may always run

	// Limits of methods by the latency of handlers. Off by default, as a method with some quick and
	// some slow handlers misleads it. The limits are FirstLimit at most.
	Gradient float64 // the limit is lowered when handlers take more than this many times their long average; 0, the default, for no such limit
	LongGain float64 // weight of a period in the long average
	Smooth   float64 // share of the computed change that is applied in a period
	Steepest float64 // least factor of the limit in a period, before Smooth
	TooLong  float64 // when the long average is more than this many times the period's, an overload is over, and the average is multiplied by Falls
	Falls    float64 // see TooLong

	// Limits of methods. A handler is slow if it takes more than TimeShare of the time that its
	// request has, and more than Slower times the usual time.
	TimeShare       float64
	Slower          float64
	Judged          int           // handlers that must have ended before it is judged whether too many are slow
	Share           float64       // share of those handlers that may be slow, or late
	JudgedLate      int64         // if all were late, this many handlers are enough, if they are also JudgedTurns times the limit
	JudgedTurns     int64         // see JudgedLate
	MostLate        float64       // with a larger share of late handlers, a cut may go below what the rate needs, and counts as fruitless
	MostSlow        float64       // if cuts do not make slow handlers quicker: a smaller share of them than this is accepted and causes no more cuts; with a larger one their time is accepted
	FirstLimit      int64         // limit of the running handlers of a method, until too many are slow or it grows; practically none by default
	LiftAfter       int           // periods in a row that used at most half of the limit, after which it is FirstLimit again
	LeastLimit      int           // lower bound of a method's limit
	Cut             float64       // a cut leaves at most this share of a limit
	DeepCut         float64       // a cut leaves at most this share of a limit, if all handlers were late
	Growth          int64         // above its value after the last cut, a limit grows by 1/Growth when as many handlers as the limit have ended in time
	Spare           float64       // a limit is at least this many times what the rate needs at the usual time
	Fruitless       int           // cuts in a row that leave most handlers late, after which there is no limit
	Immunity        time.Duration // how long shares of slow handlers that a limit did not change cause no cut; twice as long each time
	LongestImmunity time.Duration // upper bound of the doubled Immunity
	Period          time.Duration // time over which the rate of handlers in time is counted
	RateFades       float64       // factor of the largest rate after a period
	UsualGain       float64       // weight of a period in the usual time, if its handlers took longer
	ShorterGain     float64       // weight of a period in the usual time, if its handlers did not take longer

	// Bounds of the RetryAfter of refused requests. Requests that have waited in the queue, and
	// streams, get the longest.
	ShortestPause, LongestPause time.Duration

	Missed       int64         // if this many samples in a row are missing, the process counts as stopped in between
	Every        time.Duration // time between two samples of processors and receive buffers, and between pauses of handlers in which requests are read; ten times as long while no call runs
	UsualTimeout time.Duration // timeout that is assumed for requests without a deadline
}
