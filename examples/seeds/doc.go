// Package seeds has tests that run the programs below it: those of rpcx's documentation, with
// which this project began, and of an article on net/rpc's performance. Only their import
// lines are changed, and obvious mistakes fixed: functions that are not defined, clauses that
// are missing, lines that are cut off. posts/server was written here, since the service that
// its client calls does not exist any more, and so was netrpc/client, whose program was not
// published.
//
// The programs use fixed addresses, some of them names. So the tests run in a separate
// network, with their own hosts file.
package seeds
