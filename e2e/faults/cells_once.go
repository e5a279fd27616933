package main

import (
	"fmt"
	"time"
)

// onceCells returns cells with keyed calls, whose servers are killed.
func onceCells(fast bool) []cell {
	kills, length := 60, time.Duration(0)
	if fast {
		kills = 4
	}
	length = time.Duration(kills)*time.Second + 4*time.Second
	load := light(length, []string{variantKeyed})
	load.Rate, load.Work, load.Deadline = 500, 20*time.Millisecond, 20*time.Second
	title := fmt.Sprintf("one of three servers is killed each second, %d times (4 with -fast), and started again, under calls with keys that are retried; ", kills)
	base := cell{
		Systems: []string{sysTandem}, Short: true, Instances: 3, Load: load, At: time.Second, Fault: killEach(kills),
	}
	sql, redis := base, base
	sql.Name, sql.Title, sql.Store = "once-sql", title+"their records and their work are in one transaction of Postgres", storePostgres
	sql.Judge = noneFailed
	redis.Name, redis.Title, redis.Store = "once-redis", title+"their records are in Redis (appendfsync always)", storeRedis
	redis.Judge = onlyUndecided(kills)
	return []cell{sql, redis}
}

// onlyUndecided is the bar that no call fails but those that a killed server was running: half as many for
// each kill as it runs on average at least, and three times as many at most.
func onlyUndecided(kills int) func(o *outcome) []check {
	return func(o *outcome) []check {
		var checks []check
		perServer := o.cell.Load.Rate * o.cell.Load.Work.Seconds() / float64(o.cell.Instances)
		for _, a := range o.tandems() {
			s := a.summary(all)
			undecided := s.Codes[codeUndecided]
			checks = append(checks,
				atMost(a.String()+": failed, and not undecided", s.Failed-undecided, 0),
				atLeast(a.String()+": undecided", undecided, 1),
				atMost(a.String()+": undecided, at most three times what a server runs for each kill", undecided, int(3*perServer*float64(kills))))
		}
		return checks
	}
}
