package main

import (
	"fmt"
	"time"
)

// onceCells returns cells with keyed calls, whose servers are killed.
func onceCells(fast bool) []cell {
	kills := 60
	if fast {
		kills = 4
	}
	load := light(time.Duration(kills)*time.Second+4*time.Second, []string{variantKeyed})
	load.Rate, load.Work, load.Deadline = 500, 20*time.Millisecond, 20*time.Second
	load.Retries = 10 // a retry may be lost to the next kill, too
	title := fmt.Sprintf("one of three servers is killed each second, %d times (4 with -fast), and started again, under calls with keys that are retried; ", kills)
	base := cell{
		Systems: []string{sysTandem}, Short: true, Instances: 3, Load: load, At: time.Second, Fault: killEach(kills),
	}
	sql, redis := base, base
	sql.Name, sql.Title, sql.Store = "once-sql", title+"their records and their work are in one transaction of Postgres", storePostgres
	sql.Judge = noneFailed
	redis.Name, redis.Title, redis.Store = "once-redis", title+"their records are in Redis (appendfsync always)", storeRedis
	redis.Judge = onlyUndecided
	return []cell{sql, redis}
}

// onlyUndecided is the bar that no call fails but those that a killed server was running, some of which are
// undecided.
func onlyUndecided(o *outcome) []check {
	var checks []check
	for _, a := range o.tandems() {
		s := a.summary(all)
		undecided := s.Codes[codeUndecided]
		checks = append(checks,
			atMost(a.String()+": failed, and not undecided", s.Failed-undecided, 0),
			atLeast(a.String()+": undecided", undecided, 1))
	}
	return checks
}
