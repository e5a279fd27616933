// Package seeds has tests that run the programs below it: those of rpcx's documents,
// of which this project comes, and of one on net/rpc's performance. Only their import
// lines are changed, and plain slips mended: functions that are not defined, clauses
// that are missing, lines that were cut off. posts/server is ours, since the service
// that its client asks is gone, and so is netrpc/client, of which there was no
// program.
//
// The programs have fixed addresses, some of them names. So the tests run in a network
// of their own, with a file of hosts of their own.
package seeds
